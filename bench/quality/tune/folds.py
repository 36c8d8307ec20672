"""Cross-validation: scores a search on questions that it has not seen.

The questions of each set are dealt to the folds. For each fold the search runs on all others, from
the same start, and is scored on it: so every question is scored once, by a profile that was chosen
without it. That judges the search, and not the one profile that it makes of all questions.

Questions of one conversation may lie in different folds. So it says what to expect of further
questions to such conversations, and less of conversations of another kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.quality.scoring.intervals import Estimate, mean_interval, paired_difference
from bench.quality.tune.objective import MEASURES, Board, Floats, Objective, Places
from bench.quality.tune.search import CoordinateSearch, Searched
from serving.domain.ranking.profile import Profile

MEAN = "mean of the three"


def deal(board: Board, count: int, seed: int) -> list[Places]:
    """Deals the questions of each set to folds, as equally as can be.

    Args:
        board: The questions.
        count: How many folds.
        seed: Of the order in which they are dealt.

    Raises:
        ValueError: There are fewer than two folds, or fewer questions than folds.
    """
    if not 2 <= count <= len(board.replays):
        raise ValueError(f"{len(board.replays)} questions cannot be dealt to {count} folds")
    draw = random.Random(seed)
    order = [place for name in board.sets for place in _shuffled(board.places[name], draw)]
    # One after the other over all sets, so that what is left of small sets does not add up.
    return [np.sort(np.array(order[fold::count], dtype=np.intp)) for fold in range(count)]


def _shuffled(places: Places, draw: random.Random) -> list[int]:
    ordered = [int(place) for place in places]
    draw.shuffle(ordered)
    return ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A search on all questions but some, and what it is worth on these.

    Args:
        held_out: The places of the questions that it has not seen.
        searched: The search.
    """

    held_out: Places
    searched: Searched


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossValidation:
    """The folds, and each question's scores by the profile that was chosen without it.

    Args:
        folds: One search each.
        held_out: float64 (questions, 3).
        after: What these scores are worth, all together.
    """

    folds: Sequence[Fold]
    held_out: Floats
    after: float


def cross_validate(
    board: Board,
    folds: Sequence[Places],
    single_legs: Sequence[Profile],
    search_of: Callable[[int], CoordinateSearch],
) -> CrossValidation:
    """Searches once for each fold, without its questions, and scores the outcome on them.

    Args:
        board: The questions.
        folds: Their places.
        single_legs: Profiles of one leg each, for the objective.
        search_of: Makes the search of a fold, by its number from 0.
    """
    done, held_out = list[Fold](), np.empty((len(board.replays), len(MEASURES)))
    for number, fold in enumerate(folds):
        others = np.setdiff1d(board.everything, fold)
        searched = search_of(number).run(Objective(board, others, single_legs))
        held_out[fold] = board.scores(searched.profile)[fold]
        done.append(Fold(held_out=fold, searched=searched))
    after = Objective(board, board.everything, single_legs).of(held_out)
    return CrossValidation(folds=done, held_out=held_out, after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One measure of one set, before and after, with intervals over its conversations.

    Args:
        n: How many questions.
        before: The mean under the start.
        after: The mean under what was chosen.
        difference: after - before, paired.
    """

    n: int
    before: Estimate
    after: Estimate
    difference: Estimate


def compare(board: Board, before: Floats, after: Floats) -> Mapping[str, Mapping[str, Compared]]:
    """Every measure, and the mean of the three, by set.

    Args:
        board: The questions.
        before: float64 (questions, 3).
        after: The same under another profile.
    """
    return {
        name: {
            measure: _compared(board, places, old[places], new[places])
            for measure, old, new in zip(
                (*MEASURES, MEAN), _columns(before), _columns(after), strict=True
            )
        }
        for name, places in board.places.items()
    }


def _columns(scores: Floats) -> list[Floats]:
    return [*scores.T, scores.mean(axis=1)]


def _compared(board: Board, places: Places, old: Floats, new: Floats) -> Compared:
    conversations = [board.replays[place].found.query.tenant for place in places]
    before, after = old.tolist(), new.tolist()
    return Compared(
        n=len(places),
        before=mean_interval(before, conversations),
        after=mean_interval(after, conversations),
        difference=paired_difference(after, before, conversations),
    )
