"""Coordinate search: one field of a profile at a time, over all fields, until none gains.

The objective is the mean over sets of (recall@10 + nDCG@10 + MRR@10) / 3: a set of forty questions
counts as much as one of a thousand. Profiles that the service would refuse are not candidates, so
the search ends at a local optimum, which depends on the start and on the order of the fields.

For each fold the search runs on all questions outside it, from the same start, and is scored on
it: every question is scored once by a profile that was chosen without it. That judges the search,
and not the profile that it finds with all questions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench.quality.scoring.metrics import scores
from bench.quality.tune.coordinates import Coordinate, Definition, accepted, changed, value_at
from bench.quality.tune.replay import Replay
from serving.domain.ranking.profile import Profile

MEASURES = ("recall@10", "ndcg@10", "mrr@10")
FORMULA = "mean over sets of (recall@10 + nDCG@10 + MRR@10) / 3"

MIN_GAIN = 2e-4
"""Of the objective, for a value to be taken: less is the luck of one question."""

MAX_SWEEPS = 6

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.intp]
"""Places of questions among all."""


class Board:
    """The scores of every profile tried, question by question, each computed once.

    Args:
        replays: The questions, of any number of sets; at least one.
    """

    def __init__(self, replays: Sequence[Replay]) -> None:
        self.replays = replays
        sets = np.array([each.found.set for each in replays])
        self.places: dict[str, Places] = {
            name: np.flatnonzero(sets == name) for name in dict.fromkeys(sets.tolist())
        }
        self._known: dict[Profile, Floats] = {}

    @property
    def everything(self) -> Places:
        """The places of all questions."""
        return np.arange(len(self.replays))

    def scores(self, profile: Profile) -> Floats:
        """The measures of each question: float64 (questions, 3)."""
        if profile not in self._known:
            self._known[profile] = np.array([_measured(each, profile) for each in self.replays])
        return self._known[profile]

    def objective(self, found: Floats, places: Places) -> float:
        """The objective of scores, float64 (questions, 3), over some questions."""
        of_sets = (np.intersect1d(of_set, places) for of_set in self.places.values())
        return float(np.mean([found[of_set].mean() for of_set in of_sets if of_set.size]))


def _measured(replay: Replay, profile: Profile) -> list[float]:
    found = scores(replay.ranked(profile), replay.found.query.relevant)
    return [found[measure] for measure in MEASURES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The end of a search.

    Args:
        definition: The profile, in the form of a profile file.
        profile: The same as the pipeline takes it.
        before: The objective of the start.
        after: That of the profile.
    """

    definition: Definition
    profile: Profile
    before: float
    after: float


class CoordinateSearch:
    """Searches from one start.

    Args:
        name: Of the profile.
        start: Its definition, which a service would keep.
        coordinates: The fields, in the order in which they are searched.
        board: The questions.
        advance: Called after each field.
    """

    def __init__(
        self,
        name: str,
        start: Definition,
        coordinates: Sequence[Coordinate],
        board: Board,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._start = start
        self._coordinates = coordinates
        self._board = board
        self._advance = advance

    def run(self, places: Places) -> Searched:
        """Searches for the profile of the largest objective over some questions.

        Raises:
            ValueError: A service would refuse the start.
        """
        definition = self._start
        before = best = self._objective(definition, places)
        if best == -np.inf:
            raise ValueError(f"profile {self._name!r} is refused by the service as it stands")
        for _ in range(MAX_SWEEPS):
            at_first = best
            for coordinate in self._coordinates:
                definition, best = self._improved(definition, best, coordinate, places)
                self._advance()
            if best == at_first:
                break
        profile = accepted(self._name, definition)
        assert profile is not None, "only accepted profiles are taken; this is a bug"
        return Searched(definition=definition, profile=profile, before=before, after=best)

    def _improved(
        self, definition: Definition, best: float, coordinate: Coordinate, places: Places
    ) -> tuple[Definition, float]:
        """The definition with the best value of a field, and its objective."""
        path = coordinate.path
        others = [each for each in coordinate.values if each != value_at(definition, path)]
        found: list[tuple[float, Any]] = [
            (self._objective(changed(definition, path, value), places), value) for value in others
        ]
        objective, value = max(found, key=lambda each: each[0], default=(-np.inf, None))
        if objective > best + MIN_GAIN:
            return changed(definition, path, value), objective
        return definition, best

    def _objective(self, definition: Definition, places: Places) -> float:
        """The objective of a profile; negative infinity if a service would refuse it."""
        profile = accepted(self._name, definition)
        if profile is None:
            return -np.inf
        return self._board.objective(self._board.scores(profile), places)


# ---------------------------------------------------------------- folds


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossValidation:
    """The searches of the folds, and each question's scores by the one that did not see it.

    Args:
        folds: One search each.
        held_out: float64 (questions, 3).
        after: The objective of these scores.
    """

    folds: Sequence[Searched]
    held_out: Floats
    after: float


def deal(board: Board, count: int) -> list[Places]:
    """Deals the questions of each set to folds, as equally as possible.

    Args:
        board: The questions.
        count: How many folds.

    Raises:
        ValueError: There are fewer than two folds, or fewer questions than folds.
    """
    if not 2 <= count <= len(board.replays):
        raise ValueError(f"{len(board.replays)} questions cannot be dealt to {count} folds")
    draw = random.Random(0)
    order = [
        place
        for places in board.places.values()
        for place in draw.sample(places.tolist(), len(places))
    ]
    # One after the other over all sets, so that the remainders of small sets do not add up.
    return [np.sort(np.array(order[fold::count], dtype=np.intp)) for fold in range(count)]


def cross_validate(
    board: Board, folds: Sequence[Places], search: CoordinateSearch
) -> CrossValidation:
    """Searches once for each fold, without its questions, and scores the outcome on them."""
    done = list[Searched]()
    held_out = np.empty((len(board.replays), len(MEASURES)))
    for fold in folds:
        others = np.setdiff1d(board.everything, fold)
        searched = search.run(others)
        held_out[fold] = board.scores(searched.profile)[fold]
        done.append(searched)
    after = board.objective(held_out, board.everything)
    return CrossValidation(folds=done, held_out=held_out, after=after)
