"""The judgements by rule, not by the model, and the probabilities from which the model counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Shares of a score, and probabilities that a newer statement outdates an older one.

    Args:
        asks: The share for a stored question: it has the words of the question, and no answer.
        lacks_code: That for a statement without the code in question, or without the word in
            question that somebody has spelled, where another has it: it is one word among others
            for the search by words, and none for the search by meaning.
        closed: That for the evidence of closed facts alone, if no candidate is evidence of what
            closed them.
        order: The probability from which a newer statement takes the place of an older one.
        past: That from which an older one does, where a question asks for what once held.
        mark: The probability from which an older statement is marked. A mark is a promise: an
            order that errs costs a place, and a mark that errs tells that a true thing is over.
        asked: The share of the question's words, by how few candidates have them, that a marked
            statement has: it once answered.
    """

    asks: float = 0.5
    lacks_code: float = 0.5
    closed: float = 0.5
    order: float = 0.3
    past: float = 0.6
    mark: float = 0.8
    asked: float = 0.3


RULES = Rules()
"""The rules of the service."""
