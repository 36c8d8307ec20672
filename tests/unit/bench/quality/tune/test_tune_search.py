from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.quality.tune.coordinates import (
    Coordinate,
    Definition,
    UntunableError,
    alone,
    changed,
    check_tunable,
    coordinates,
    reachable,
    value_at,
)
from bench.quality.tune.folds import MEAN, compare, cross_validate, deal
from bench.quality.tune.lists import Found
from bench.quality.tune.objective import MRR, Board, Objective
from bench.quality.tune.replay import Replay
from bench.quality.tune.search import CoordinateSearch, Searched
from serving.config.profiles import ProfileBook
from serving.domain.ranking.profile import Profile
from serving.domain.ranking.reachability import faults
from serving.pipeline.retrieval.legs import SEEDING_DEPTH
from tests.support.builders import NOON, days, segment
from tests.unit.bench.quality.tune.listed_service import definition_of, listed, question

WEIGHT, DEPTH = "legs.dense.weight", "legs.lexical.depth"
TWO_LEGS: Definition = {
    "description": "Words and meaning.",
    "rank_constant": 2.0,
    "legs": {"lexical": {"weight": 1.0, "depth": 20}, "dense": {"weight": 1.0, "depth": 20}},
}
ROWS = [
    segment(
        f"s{number}",
        f"Said as number {number}.",
        speaker="Mel" if number % 3 else "Ann",
        event_time=NOON - days(37 * (20 - number)),
    )
    for number in range(20)
]
NOISE = " ".join(row.id for row in ROWS[10:])


def search(
    objective: Callable[[Profile], float], tried: Sequence[Coordinate], start: Definition = TWO_LEGS
) -> Searched:
    return CoordinateSearch("p", start, tried).run(objective)


# ---------------------------------------------------------------- the search


def test_a_planted_optimum_is_found_wherever_the_search_begins() -> None:
    def hill(profile: Profile) -> float:
        lexical, dense = profile.leg("lexical"), profile.leg("dense")
        return -abs(dense.weight - 0.7) - abs(lexical.depth - 10) / 100 * dense.weight

    tried = [Coordinate(WEIGHT, (0.5, 0.7, 1.0, 1.5)), Coordinate(DEPTH, (5, 10, 50))]

    for depth in (5, 20, 50):
        found = search(hill, tried, changed(TWO_LEGS, DEPTH, depth))
        assert (value_at(found.definition, WEIGHT), value_at(found.definition, DEPTH)) == (0.7, 10)
        assert found.after == hill(found.profile) == 0
        assert found.before < found.after


def test_a_list_that_only_misleads_is_cut_off() -> None:
    """At equal weights what meaning finds first comes before the answer, which words find."""
    board = Board([Replay(misled(number)) for number in range(8)])
    tried = [
        Coordinate(WEIGHT, (0.3, 0.5, 0.7, 1.0, 1.5)),
        Coordinate("rank_constant", (2.0, 60.0)),
    ]

    found = search(Objective(board, board.everything), tried)

    assert found.after == 1 > found.before
    assert [step.path for step in found.steps if step.taken] == [WEIGHT]


def misled(number: int, set_: str = "set") -> Found:
    """A question that words answer, and meaning does not."""
    query = question(f"q{number}", "s5", tenant=f"t{number % 4}")
    return listed({"lexical": f"s5 {NOISE}", "dense": "s1 s2"}, query, ROWS, set_)


def test_a_profile_that_is_unreachable_is_never_chosen() -> None:
    """The larger the weight the better, but for what drowns out the other leg."""
    weights = (1.0, 1.5, 5.0, 50.0)

    found = search(lambda profile: profile.leg("dense").weight, [Coordinate(WEIGHT, weights)])

    assert value_at(found.definition, WEIGHT) == 1.5
    assert not faults(found.profile)
    refused = [step.value for step in found.steps if math.isnan(step.worth)]
    assert refused == [5.0, 50.0] * 2
    assert faults(ProfileBook.load().changed("default", {"legs": {"dense": {"weight": 50}}}))


def test_a_value_that_gains_nothing_to_speak_of_is_not_taken() -> None:
    found = search(lambda profile: profile.leg("dense").weight / 1e5, [Coordinate(WEIGHT, (1.5,))])

    assert found.definition == TWO_LEGS
    assert [step.taken for step in found.steps] == [False]


def test_a_start_that_the_service_refuses_is_no_start() -> None:
    with pytest.raises(ValueError, match="refused by the service as it stands"):
        search(lambda _: 0, [], changed(TWO_LEGS, WEIGHT, 50.0))


# ---------------------------------------------------------------- what is searched


def test_every_leg_and_signal_of_a_profile_is_searched() -> None:
    definition = definition_of()

    paths = {each.path for each in coordinates(definition, ProfileBook.load()["default"])}

    assert paths == {
        *(f"legs.{leg}.{of}" for leg in definition["legs"] for of in ("weight", "depth")),
        *(f"legs.{leg}.floor" for leg in ("dense", "facts", "graph", "related")),
        "signals.recency",
        "signals.speaker",
        "signals.time",
        "rank_constant",
        "decay",
    }


def test_fields_are_searched_in_one_order_in_whatever_order_legs_are_listed() -> None:
    definition = definition_of()
    turned = {**definition, "legs": dict(reversed(definition["legs"].items()))}

    orders = [
        [each.path for each in coordinates(one, profile)]
        for one in (definition, turned)
        if (profile := reachable("p", one)) is not None
    ]

    assert len(orders) == 2
    assert orders[0] == orders[1]


def test_lists_that_another_leg_begins_with_are_not_cut_shorter_than_it_looks() -> None:
    tried = {
        each.path: each for each in coordinates(definition_of(), ProfileBook.load()["default"])
    }

    for leg in ("lexical", "dense"):
        assert min(tried[f"legs.{leg}.depth"].values) >= SEEDING_DEPTH
    assert min(tried["legs.graph.depth"].values) < SEEDING_DEPTH


def test_a_value_of_the_start_that_is_in_no_grid_is_tried_again() -> None:
    start = changed(TWO_LEGS, WEIGHT, 1.07)
    profile = reachable("p", start)
    assert profile is not None

    tried = {each.path: each.values for each in coordinates(start, profile)}

    assert 1.07 in tried[WEIGHT]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("two_stage", "rerank"),
        ("hybrid_recall", "legs.lexical.words.mode"),
        ("object_graph", "legs.graph.walk.seeds_from"),
    ],
)
def test_what_cannot_be_ranked_offline_is_refused_by_its_field(name: str, field: str) -> None:
    with pytest.raises(UntunableError, match=f"{field}: "):
        check_tunable(ProfileBook.load()[name])


def test_the_default_profile_can_be_tuned() -> None:
    check_tunable(ProfileBook.load()["default"])


# ---------------------------------------------------------------- the objective


def test_each_set_counts_the_same_however_many_questions_it_has() -> None:
    answered = listed({"lexical": "s0", "dense": ""}, question("a", "s0"), ROWS, "small")
    missed = [
        listed({"lexical": NOISE, "dense": ""}, question(f"b{n}", "s0"), ROWS, "large")
        for n in range(9)
    ]
    board = Board([Replay(each) for each in (answered, *missed)])

    assert Objective(board, board.everything)(two_legs()) == pytest.approx(0.5)


def test_what_comes_later_than_by_the_best_leg_alone_costs_as_much_again() -> None:
    board = Board([Replay(misled(0))])
    singles = [alone("p", TWO_LEGS, leg) for leg in ("lexical", "dense")]
    profile = two_legs(dense=1.5)

    plain = Objective(board, board.everything)(profile)
    penalised = Objective(board, board.everything, singles)

    mrr = board.scores(profile)[0, MRR]
    assert penalised.bars == {"set": 1.0}
    assert mrr < 1
    assert penalised(profile) == pytest.approx(plain - (1 - mrr))
    assert penalised(singles[0]) == 1


def two_legs(**weights: float) -> Profile:
    definition = TWO_LEGS
    for leg, weight in weights.items():
        definition = changed(definition, f"legs.{leg}.weight", weight)
    profile = reachable("p", definition)
    assert profile is not None
    return profile


def test_a_set_that_lacks_what_was_changed_is_not_ranked_again() -> None:
    class Counted(Replay):
        calls = 0

        def ranked(self, profile: Profile, depth: int = 10) -> list[str]:
            self.calls += 1
            return super().ranked(profile, depth)

    without_meaning = Counted(listed({"lexical": "s0", "dense": ""}, question("a", "s0"), ROWS))
    board = Board([without_meaning])

    scores = [board.scores(two_legs(dense=weight)).tolist() for weight in (1.0, 0.7, 1.0)]
    assert without_meaning.calls == 1
    board.scores(two_legs(lexical=1.3))

    assert without_meaning.calls == 2
    assert scores == [scores[0]] * 3


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_what_is_kept_of_a_profile_is_not_taken_for_another(seed: int) -> None:
    draw = random.Random(seed)
    found = [shuffled(draw, number) for number in range(4)]
    shared = Board([Replay(each) for each in found])
    start = reachable("p", TWO_LEGS)
    assert start is not None

    for coordinate in coordinates(TWO_LEGS, start):
        for value in coordinate.values:
            if (profile := reachable("p", changed(TWO_LEGS, coordinate.path, value))) is None:
                continue
            anew = Board([Replay(each) for each in found])
            assert shared.scores(profile).tolist() == anew.scores(profile).tolist()


def shuffled(draw: random.Random, number: int) -> Found:
    """A question of one of two sets, in one of which nothing is found by meaning."""
    by_words, by_meaning = (" ".join(draw.sample([row.id for row in ROWS], 15)) for _ in "ab")
    lists = {"lexical": by_words, "dense": by_meaning if number % 2 else ""}
    return listed(lists, question(f"q{number}", draw.choice(ROWS).id), ROWS, f"set{number % 2}")


# ---------------------------------------------------------------- the folds


def board_of(*counts: int) -> Board:
    return Board(
        [
            Replay(misled(number, f"set{place}"))
            for place, count in enumerate(counts)
            for number in range(count)
        ]
    )


@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    folds=st.integers(2, 6),
    seed=st.integers(0, 99),
)
def test_folds_are_disjoint_cover_everything_and_have_their_share_of_each_set(
    counts: list[int], folds: int, seed: int
) -> None:
    board = board_of(*(count + 5 for count in counts))

    dealt = deal(board, folds, seed)

    assert sorted(np.concatenate(dealt).tolist()) == board.everything.tolist()
    for places in board.places.values():
        shares = [len(np.intersect1d(places, fold)) for fold in dealt]
        assert max(shares) - min(shares) <= 1


def test_another_seed_deals_otherwise_and_the_same_seed_alike() -> None:
    board = board_of(20)

    first, again, other = (deal(board, 4, seed)[0].tolist() for seed in (1, 1, 2))

    assert first == again != other


def test_more_folds_than_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="3 questions cannot be dealt to 4 folds"):
        deal(board_of(3), 4, seed=0)


def test_each_question_is_scored_by_what_was_chosen_without_it() -> None:
    board = Board([Replay(misled(0)), Replay(answered_by_meaning(1))])
    folds = [np.array([0]), np.array([1])]
    tried = [Coordinate(WEIGHT, (0.5, 1.0, 2.0))]

    validated = cross_validate(board, folds, [], lambda _: CoordinateSearch("p", TWO_LEGS, tried))

    chosen = [value_at(fold.searched.definition, WEIGHT) for fold in validated.folds]
    assert chosen == [2.0, 0.5]
    for place, weight in enumerate(chosen):
        expected = board.scores(two_legs(dense=weight))[place]
        assert validated.held_out[place].tolist() == expected.tolist()
    assert validated.after == Objective(board, board.everything).of(validated.held_out) < 1


def answered_by_meaning(number: int) -> Found:
    query = question(f"m{number}", "s5")
    return listed({"lexical": f"s1 s2 {NOISE}", "dense": "s5 s3"}, query, ROWS)


def test_differences_are_paired_and_drawn_by_conversation() -> None:
    board = board_of(8)
    before = board.scores(two_legs(dense=1.5))
    after = board.scores(two_legs(dense=0.5))

    compared = compare(board, before, after)["set0"]

    assert compared["mrr@10"].n == 8
    assert compared["mrr@10"].difference.above_zero
    assert compared[MEAN].after.mean == pytest.approx(float(after.mean()))
