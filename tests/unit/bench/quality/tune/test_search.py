from __future__ import annotations

import numpy as np
import pytest

from bench.quality.tune.coordinates import (
    Coordinate,
    Definition,
    accepted,
    changed,
    check_tunable,
    coordinates,
    value_at,
)
from bench.quality.tune.leg_lists import LegLists
from bench.quality.tune.replay import Replay
from bench.quality.tune.search import Board, CoordinateSearch, Searched, cross_validate, deal
from serving.config.profiles import ProfileBook
from tests.support.builders import segment
from tests.unit.bench.quality.tune.listed_service import definition_of, listed, question

WEIGHT = "legs.dense.weight"
START: Definition = {
    "description": "Words and meaning.",
    "rank_constant": 2.0,
    "legs": {"lexical": {"weight": 1.0, "depth": 20}, "dense": {"weight": 1.0, "depth": 20}},
}
ROWS = [segment(f"s{number}", f"Said as number {number}.") for number in range(20)]
NOISE = " ".join(row.id for row in ROWS[10:])
WEIGHTS = Coordinate(WEIGHT, (0.3, 0.5, 0.7, 1.0, 1.5, 50.0))


def misled(number: int, set_: str = "set") -> LegLists:
    """A question that words answer, and meaning does not."""
    query = question(f"q{number}", "s5", tenant=f"t{number % 4}")
    return listed({"lexical": f"s5 {NOISE}", "dense": "s1 s2"}, query, ROWS, set_)


def led(number: int) -> LegLists:
    """A question that meaning answers, and words do not."""
    query = question(f"m{number}", "s5", tenant="t")
    return listed({"lexical": "s1 s2", "dense": f"s5 {NOISE}"}, query, ROWS, "other")


def board(*lists: LegLists) -> Board:
    return Board([Replay(each) for each in lists])


def search(of: Board, start: Definition = START) -> Searched:
    return CoordinateSearch("p", start, [WEIGHTS], of).run(of.everything)


def test_search_lowers_a_misleading_leg() -> None:
    found = search(board(*map(misled, range(8))))

    assert value_at(found.definition, WEIGHT) < 1
    assert found.before < found.after == 1


def test_refused_profile_is_never_chosen() -> None:
    found = search(board(*map(led, range(8))))

    assert accepted("p", changed(START, WEIGHT, 50.0)) is None
    assert value_at(found.definition, WEIGHT) == 1.5


def test_refused_start_is_an_error() -> None:
    with pytest.raises(ValueError, match="refused by the service as it stands"):
        search(board(misled(0)), changed(START, WEIGHT, 50.0))


def test_sets_count_the_same() -> None:
    of = board(*map(misled, range(9)), led(0))
    scores = np.zeros((10, 3))
    scores[9] = 1.0

    assert of.objective(scores, of.everything) == 0.5


def test_folds_hold_each_question_once() -> None:
    of = board(*map(misled, range(9)), *map(led, range(4)))

    folds = deal(of, 3)

    assert sorted(np.concatenate(folds).tolist()) == list(range(13))
    assert sorted(map(len, folds)) == [4, 4, 5]
    with pytest.raises(ValueError, match="13 questions cannot be dealt to 14 folds"):
        deal(of, 14)


def test_fold_is_scored_by_a_search_without_it() -> None:
    of = board(misled(0), led(0))

    validated = cross_validate(of, deal(of, 2), CoordinateSearch("p", START, [WEIGHTS], of))

    # Each search saw only the question that wants the other leg.
    assert search(of).after >= search(of).before > validated.after


def test_fields_of_upstream_legs_are_fixed() -> None:
    definition = definition_of()

    paths = {each.path for each in coordinates(definition, ProfileBook.load()["default"])}

    legs = set(definition["legs"]) - {"lexical", "dense"}
    assert paths == {
        *(f"legs.{leg}.weight" for leg in definition["legs"]),
        *(f"legs.{leg}.depth" for leg in legs),
        *(f"legs.{leg}.floor" for leg in ("context", "facts", "graph", "related")),
        *(f"signals.{name}" for name in ("recency", "speaker", "time")),
        "rank_constant",
    }


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("two_stage", "rerank"),
        ("hybrid_recall", "legs.lexical.words.mode"),
        ("object_graph", "legs.graph.walk.seeds_from"),
    ],
)
def test_profile_beyond_the_replay_is_refused(name: str, field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}: "):
        check_tunable(ProfileBook.load()[name])
