"""The factor of each score for currency, the statement that took the place, and the marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from serving.domain.ranking.holds.model import Model, shipped_model
from serving.domain.ranking.holds.pairs import Pairs, Vector
from serving.domain.ranking.holds.question import Question
from serving.domain.ranking.holds.rules import RULES, Rules
from serving.domain.ranking.holds.statement import Statement
from serving.domain.ranking.ledger import CurrencyReason

APART = 1e-6
"""The distance of a score above the place that it took, as a share of it."""


class Verdict(NamedTuple):
    """A factor of a score, the reason for it, and the place of the other statement, if any."""

    factor: float
    reason: CurrencyReason
    by: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdicts on each candidate by its place, and what is marked as outdated, by what."""

    verdicts: Sequence[Sequence[Verdict]]
    outdated_by: dict[int, int] = field(default_factory=dict)


def judge(
    question: str, head: Sequence[Statement], *, model: Model | None = None, rules: Rules = RULES
) -> Judgement:
    """Judges which of the candidates of a question answer now.

    The score of each, times its factors, orders them. A newer statement that probably outdates an
    older one takes its place, and the older one follows. A question for what once held puts the
    older one first by the same model. One that may ask for either moves only what somebody
    corrected, which never held.

    What rests on closed facts alone is outdated by what closed them, without the model. A brief
    answer to a stored question is before that question.

    Args:
        question: What was asked.
        head: Statements, best first, at most `HEAD`.
        model: Another one than that of the service.
        rules: Others than those of the service.
    """
    if not head:
        return Judgement(())
    asked = Question(question)
    pairs = Pairs(asked, head)
    verdicts = _worth(asked, pairs, rules)
    probabilities = (model or shipped_model()).probabilities(pairs)
    # What lacks the code in question outdates nothing that has it, however alike the two are.
    lacks = np.array(
        [any(each.reason is CurrencyReason.LACKS_CODE for each in own) for own in verdicts]
    )
    probabilities[~lacks[:, None] & lacks] = 0.0
    probabilities[pairs.other_corrections()] = 0.0
    probabilities[pairs.retractions(rules.asked) | pairs.firsthand()] = 1.0
    for place, statement in enumerate(head):
        if statement.closed_by:
            probabilities[place, statement.closed_by] = 1.0
    scores = pairs.scores * [math.prod(verdict.factor for verdict in own) for own in verdicts]
    taken = probabilities >= rules.order
    if asked.may_be_any:
        taken &= pairs.corrections
    elif asked.asks_for_past:
        taken = rules.past <= probabilities.T
    found = _superseding(taken, scores)
    # What took a place is before what had it, of those the newest, or the oldest.
    found.sort(key=lambda each: head[each[0]].order, reverse=asked.asks_for_past)
    final = scores.copy()
    for rank, (place, other) in enumerate(found, 1):
        final[place] = scores[other] * (1 + APART * rank)
        factor = float(final[place] / scores[place])
        verdicts[place].append(Verdict(factor, CurrencyReason.TAKES_PLACE, other))
    for place, other in pairs.brief_answers():
        if 0 < final[place] <= final[other]:
            factor = float(final[other] * (1 + APART) / final[place])
            final[place] *= factor
            verdicts[place].append(Verdict(factor, CurrencyReason.TAKES_PLACE, other))
    if asked.asks_for_past or asked.may_be_any:
        return Judgement(verdicts)
    return Judgement(verdicts, _outdated(asked, pairs, probabilities, final, rules))


def _worth(asked: Question, pairs: Pairs, rules: Rules) -> list[list[Verdict]]:
    """Less for what does not answer."""
    # Of a number all of it counts, and not the part that others have too, such as an area code.
    codes = asked.codes_among(pairs.traits)
    has_code = [asked.longest_code(each, codes) for each in pairs.traits]
    longest = 0 if asked.asks_for_old_value else max(has_code)
    verdicts: list[list[Verdict]] = [[] for _ in pairs.head]
    for place, statement in enumerate(pairs.head):
        if pairs.asks[place]:
            verdicts[place].append(Verdict(rules.asks, CurrencyReason.ASKS))
        if has_code[place] < longest:
            verdicts[place].append(Verdict(rules.lacks_code, CurrencyReason.LACKS_CODE))
        if statement.closed_by == () and not (asked.asks_for_past or asked.may_be_any):
            verdicts[place].append(Verdict(rules.closed, CurrencyReason.CLOSED))
    return verdicts


def _superseding(taken: Vector, scores: Vector) -> list[tuple[int, int]]:
    """The statements that take the place of another, and the best place that each takes."""
    able = taken & (scores[None, :] > 0) & (scores[None, :] <= scores[:, None])
    return [
        (place, int(np.argmax(np.where(able[:, place], scores, -np.inf))))
        for place in np.nonzero(able.any(axis=0))[0].tolist()
    ]


def _outdated(
    asked: Question, pairs: Pairs, probabilities: Vector, scores: Vector, rules: Rules
) -> dict[int, int]:
    """The places of statements to mark, with that of the newer one that outdates each.

    A mark is a promise, which needs more than a place.
    """
    likely = np.argwhere((probabilities >= rules.mark) & (scores[None, :] > scores[:, None]))
    marked: dict[int, int] = {}
    for older, newer in sorted(likely.tolist(), key=lambda pair: -probabilities[*pair]):
        if older not in marked and (
            newer in (pairs.head[older].closed_by or ())
            or (
                pairs.share[older] >= rules.asked
                and not _speaks_against(asked, pairs, older, newer)
            )
        ):
            marked[older] = newer
    return marked


def _speaks_against(asked: Question, pairs: Pairs, older: int, newer: int) -> bool:
    """Whether the newer statement adds something, or is about somebody else."""
    if not pairs.head[newer].is_turn and not pairs.head[older].is_turn:
        return True  # the time of a document is often that of its import
    before, after = pairs.traits[older], pairs.traits[newer]
    if after.signs["adds"]:
        return True
    if pairs.corrections[older, newer]:
        return False
    others_name = pairs.names[newer] - pairs.persons[older] - pairs.asked_names
    return bool(
        after.owners - before.owners - asked.owners
        or (others_name and asked.values)
        or pairs.asked_names & pairs.persons[older] - pairs.persons[newer]
        or not pairs.same_speaker[older, newer]
    )
