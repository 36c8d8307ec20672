"""Late interaction: the nearest turns in the order of their words too.

A vector is the mean of a text's tokens, so that one word which answers the question is outweighed
by the others. MaxSim (Khattab and Zaharia, "ColBERT", 2020) takes the best word of a text for each
word of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from serving.domain.items.records import ItemId
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.ports.embedding import AXES_BYTES, StatedVector

RESCORED = 40
"""The number of nearest turns to order, whatever depth is wanted: so a place in a longer list is
that in a shorter one."""

SHARE = 0.4
"""The weight of MaxSim; the cosine has the rest. With half, conversations gain as much, and alike
statements about other people and things are confused more often."""

ABOVE_COSINE = 0.1
"""The mean by which the MaxSim of a turn exceeds its cosine: .05 on LoCoMo, .13 on the small
memories. Without it texts without states would come last, and a floor would be another."""

UNIT = 127.0**2
"""The product of two equal states in int8."""


def rescored(
    found: Sequence[Candidate],
    question: StatedVector,
    states_of: Callable[[ItemId], bytes],
    least: float,
) -> list[Candidate]:
    """Puts those of the first `RESCORED` found, by cosine, in the order of the words too.

    The score of a text with states is the mean of its cosine and its MaxSim less `ABOVE_COSINE`,
    weighted by `SHARE`; others keep their cosine, but those further on come after these. So do
    those with a cosine below `least`: words in common bring nothing near that is not. What is near
    stays at `least` or above, such as an answer of one word.
    """
    head = [candidate for candidate in found[:RESCORED] if candidate.score >= least]
    if not head:
        return list(found)
    scores = max_sims(question, [states_of(candidate.item) for candidate in head])
    ordered = best_first(
        candidate
        if score is None
        else candidate._replace(score=max(least, _mean(candidate.score, score)))
        for candidate, score in zip(head, scores, strict=True)
    )
    last = ordered[-1].score
    rest = found[len(head) :]
    return [*ordered, *(each._replace(score=min(each.score, last)) for each in rest)]


def _mean(cosine: float, max_sim: float) -> float:
    return round(cosine + SHARE * (max_sim - ABOVE_COSINE - cosine), 6)


def max_sims(question: StatedVector, stored: Sequence[bytes]) -> list[float | None]:
    """The MaxSim of texts: the mean, over the question's words, of the best cosine in the text.

    `stored` are as in `Embedding.states`. None for a text without states on the question's axes.
    Equal states have equal scores: products and sums of int8 are exact in float32 and float64.
    """
    comparable = [each[:AXES_BYTES] == question.axes for each in stored]
    bodies = [each[AXES_BYTES:] for each, may in zip(stored, comparable, strict=True) if may]
    scores = iter(_max_sims(question, bodies) if bodies else ())
    return [next(scores) if may else None for may in comparable]


def _max_sims(question: StatedVector, bodies: Sequence[bytes]) -> list[float]:
    asked: NDArray[np.float32] = question.states.astype(np.float32)
    count, width = asked.shape
    words = np.frombuffer(b"".join(bodies), np.int8).reshape(-1, width)
    starts = np.cumsum([0, *(len(body) // width for body in bodies[:-1])])
    best = np.maximum.reduceat(words.astype(np.float32) @ asked.T, starts, axis=0)
    scores: list[float] = (best.sum(axis=1, dtype=np.float64) / (count * UNIT)).tolist()
    return scores
