"""The objective of the search.

    mean over sets of
        (recall@10 + nDCG@10 + MRR@10) / 3 - max(0, best single leg's MRR@10 - MRR@10)

A set of forty questions counts as much as one of a thousand, or the largest would decide alone. Of
the three measures recall says whether the answer is there, nDCG whether it is near the top, and
MRR what a bot that reads one hit gets. The penalty takes a point for each by which the first
relevant hit comes later than by the best leg alone, with the start's other settings: else recall
gained at the bottom would pay for a worse top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bench.quality.scoring.metrics import ndcg_at, recall_at, reciprocal_rank_at
from bench.quality.tune.replay import Replay
from serving.domain.ranking.profile import Profile

MEASURES = ("recall@10", "ndcg@10", "mrr@10")
MRR = MEASURES.index("mrr@10")
PENALTY = 1.0
"""Points lost for each point of MRR@10 below the best single leg's."""

FORMULA = (
    "mean over sets of (recall@10 + nDCG@10 + MRR@10) / 3 "
    f"- {PENALTY:g} * max(0, best single leg's MRR@10 - MRR@10)"
)

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.intp]
"""Places of questions on a board."""

_OF_LISTS = ("name", "description", "legs", "signals")
"""The fields of a profile that order nothing, or only by what a set has."""


class Board:
    """The scores of every profile tried, question by question, each worked out once.

    Profiles that differ only in what a set does not have (a leg that finds nothing there, a
    signal that says nothing) order it alike, so it is not ordered again.

    Args:
        replays: The questions, of any number of sets; at least one.
    """

    def __init__(self, replays: Sequence[Replay]) -> None:
        self.replays = replays
        self.sets = tuple(dict.fromkeys(each.found.set for each in replays))
        of_question = np.array([self.sets.index(each.found.set) for each in replays])
        self.places: Mapping[str, Places] = {
            name: np.flatnonzero(of_question == number) for number, name in enumerate(self.sets)
        }
        self._has_to_say = {
            name: frozenset[str]().union(*(replays[place].has_to_say() for place in places))
            for name, places in self.places.items()
        }
        self._known: dict[object, Floats] = {}

    @property
    def everything(self) -> Places:
        """The places of all questions."""
        return np.arange(len(self.replays))

    def scores(self, profile: Profile) -> Floats:
        """The three measures of each question: float64 (questions, 3)."""
        found = np.empty((len(self.replays), len(MEASURES)))
        for name, places in self.places.items():
            found[places] = self._of_set(name, profile)
        return found

    def _of_set(self, name: str, profile: Profile) -> Floats:
        key = (name, *self._what_counts(name, profile))
        if key not in self._known:
            replays = (self.replays[place] for place in self.places[name])
            self._known[key] = np.array([_measured(each, profile) for each in replays])
        return self._known[key]

    def _what_counts(self, name: str, profile: Profile) -> tuple[object, ...]:
        """All of a profile by which it can order a set."""
        active = self._has_to_say[name]
        legs = tuple(leg for leg in profile.legs if leg.weight and leg.name in active)
        signals = tuple(each for each in profile.signals if each.weight and each.name in active)
        others = (field.name for field in fields(profile) if field.name not in _OF_LISTS)
        return (legs, signals, *(getattr(profile, name) for name in others))


def _measured(replay: Replay, profile: Profile) -> tuple[float, ...]:
    ranked, relevant = replay.ranked(profile), replay.found.query.relevant
    measures = (recall_at, ndcg_at, reciprocal_rank_at)
    return tuple(measure(10, ranked, relevant) for measure in measures)


class Objective:
    """What a profile is worth on some of a board's questions.

    Args:
        board: The questions.
        places: Those that count.
        single_legs: Profiles of one leg each; with none there is no penalty.
    """

    def __init__(self, board: Board, places: Places, single_legs: Sequence[Profile] = ()) -> None:
        self._board = board
        self._of_set = {
            name: shared
            for name, of_set in board.places.items()
            if (shared := np.intersect1d(of_set, places)).size
        }
        alone = [board.scores(profile)[:, MRR] for profile in single_legs]
        self.bars = {
            name: max((float(mrr[of_set].mean()) for mrr in alone), default=0.0)
            for name, of_set in self._of_set.items()
        }
        """The MRR@10 of the best single leg, by set."""

    def __call__(self, profile: Profile) -> float:
        """The value of a profile."""
        return self.of(self._board.scores(profile))

    def of(self, scores: Floats) -> float:
        """The value of what was scored, question by question: float64 (questions, 3)."""
        values = []
        for name, places in self._of_set.items():
            means = scores[places].mean(axis=0)
            shortfall = max(0.0, self.bars[name] - float(means[MRR]))
            values.append(float(means.mean()) - PENALTY * shortfall)
        return float(np.mean(values))
