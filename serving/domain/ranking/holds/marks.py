"""The marks of outdated statements: a promise, which needs more than a place."""

from __future__ import annotations

import numpy as np

from serving.domain.ranking.holds.pairs import Pairs, Vector
from serving.domain.ranking.holds.question import Question
from serving.domain.ranking.holds.rules import Rules


def outdated(
    asked: Question, pairs: Pairs, probabilities: Vector, scores: Vector, rules: Rules
) -> dict[int, int]:
    """The places of statements to mark, with that of the newer one that outdates each."""
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
