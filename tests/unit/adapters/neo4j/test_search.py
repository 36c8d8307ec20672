from __future__ import annotations

from typing import Any

import pytest

from serving.adapters.neo4j import walks
from serving.adapters.neo4j.names import NamedSpan
from serving.adapters.neo4j.search import (
    Search,
    candidates,
    relation_places,
    search_parameters,
)
from serving.domain.items.records import fact_id, segment_id
from serving.domain.ranking.leg_options import Walk, WalkOrder
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from tests.support.builders import scope

NEAREST = Walk(order=WalkOrder.DISTANCE)

NO_STEP = [None, None, None, None]


def mention(seed: str, gain: float = 1.0) -> list[object]:
    return [gain, seed, *NO_STEP, *NO_STEP, False]


def walk(gain: float, *steps: str, seed: str = "Mara", cited: bool = True) -> list[object]:
    """A trail over facts given as "id relation end", backwards if the id starts with "<"."""
    written: list[object] = []
    for step in steps:
        id_, relation, end = step.split()
        written += [id_.lstrip("<"), relation, "OBJECT" if id_[0] == "<" else "SUBJECT", end]
    return [gain, seed, *written, *NO_STEP * (2 - len(steps)), cited]


def read(*trails: list[object]) -> Candidate:
    [found] = candidates([["s", 1_500_000_000, list(trails)]], Yields.EVIDENCE)
    return found


def test_a_score_is_read_from_billionths() -> None:
    assert read(mention("Mara")) == Candidate(segment_id("s"), 1.5, "Mara")


def test_the_path_of_mentions_names_all_that_are_mentioned() -> None:
    assert read(mention("Mara", 0.1), mention("Goa", 0.4)).path == "Goa, Mara"


def test_the_path_over_facts_shows_their_direction() -> None:
    found = read(walk(0.5, "f1 owns Shop", "<f2 likes Tom"))

    assert found.path == "Mara -[owns]-> Shop <-[likes]- Tom"
    assert found.facts == ("f2",)


def test_path_belongs_to_the_best_fact() -> None:
    found = read(
        mention("Mara", 9.0),
        walk(0.2, "f1 likes Goa"),
        walk(0.4, "f2 likes Rome"),
        walk(0.1, "f2 likes Rome", seed="Tom"),
        walk(0.9, "f3 likes Oslo", cited=False),
    )

    assert found.path == "Mara -[likes]-> Rome"
    assert found.facts == ("f2", "f1")


def test_fact_candidates_with_equal_scores_follow_ids() -> None:
    trails = [walk(0.2, "f1 likes Goa", cited=False)]

    found = candidates([["b", 2, trails], ["a", 2, trails], ["c", 3, trails]], Yields.FACTS)

    assert [candidate.item for candidate in found] == [fact_id("c"), fact_id("a"), fact_id("b")]
    assert found[0].facts == ()
    assert found[0].path == "Mara -[likes]-> Goa"


def test_nearest_path_of_the_first_seed_scores() -> None:
    trails = [
        walk(0.5, "f1 calls scan", cited=False),
        walk(1.0, "f2 calls lex", seed="parse"),
        walk(1.0, "f3 calls scan", seed="main", cited=False),
    ]

    [found] = candidates([["s", 7, trails]], Yields.EVIDENCE, WalkOrder.DISTANCE)

    assert found == Candidate(segment_id("s"), 1.0, "parse -[calls]-> lex", ("f2",))


def test_equal_distances_keep_the_order_of_seeds() -> None:
    trails = [walk(1.0, "f1 calls scan", cited=False)]

    found = candidates([["b", 9, trails], ["a", 9, trails]], Yields.EVIDENCE, WalkOrder.DISTANCE)

    assert [candidate.item.id for candidate in found] == ["b", "a"]


def test_candidate_of_hubs_alone_has_no_path() -> None:
    assert read().path == ""


# ---------------------------------------------------------------- the statement for a walk


def search(walk: Walk = Walk(), **fields: Any) -> Search:
    given = {"seeds": None, "depth": 5, "yields": Yields.EVIDENCE, **fields}
    return Search(scope=scope(), walk=walk, **given)


@pytest.mark.parametrize("default", [Walk(), Walk(seeds_from=("dense",))])
def test_default_walk_has_statements_of_its_own(default: Walk) -> None:
    spans = [NamedSpan("mara", 1.0, 0, 1)]

    assert search(default).statement is walks.FIND_SEGMENTS
    assert search(default, yields=Yields.FACTS).statement is walks.FIND_FACTS
    assert search(default).parameters(spans) == search_parameters(scope(), spans, 5)
    for parameter in ("$given.segments", "$given.by_name", "$given.places", "$given.hops"):
        assert parameter not in walks.FIND_SEGMENTS + walks.FIND_FACTS


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (search(Walk(hops=1)), walks.FOLLOW_TO_SEGMENTS),
        (search(Walk(relations=("calls",))), walks.FOLLOW_TO_SEGMENTS),
        (search(seeds=("s1",)), walks.FOLLOW_TO_SEGMENTS),
        (search(seeds=(), yields=Yields.FACTS), walks.FOLLOW_TO_FACTS),
        (search(NEAREST), walks.NEAREST_SEGMENTS),
        (search(NEAREST, yields=Yields.FACTS), walks.NEAREST_FACTS),
    ],
)
def test_a_custom_walk_has_a_statement_with_more_parameters(asked: Search, expected: str) -> None:
    assert asked.statement is expected
    assert expected in walks.DEFAULT + walks.CUSTOM


def test_search_is_planned_by_parameters_of_any_other() -> None:
    custom = search(Walk(relations=("calls",)), seeds=("s1",)).parameters()

    assert search().parameters().keys() < custom.keys()


def test_later_relation_adds_less_than_a_hop() -> None:
    assert relation_places(("Calls", "imports", "CALLS")) == {"calls": 0.0, "imports": 1 / 3}
    assert relation_places(()) == {}
    assert max(relation_places([f"r{n}" for n in range(99)]).values()) < 1
