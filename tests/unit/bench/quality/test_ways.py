from __future__ import annotations

import pytest

from bench.quality.ways import (
    Way,
    choose,
    default_ways,
    legs_of,
    parse_way,
    spelled,
    without,
)
from trivium.tuning import Profile


def profile(name: str, **weights: float) -> Profile:
    legs = {leg: {"weight": weight, "depth": 20} for leg, weight in weights.items()}
    return Profile(name=name, description="", definition={"legs": legs, "limit": 10})


FOUR = profile("default", lexical=1, dense=1, facts=1, graph=2)
TWO = profile("two", lexical=1, dense=1, graph=0)
PROFILES = (FOUR, TWO)


def test_a_way_is_read_as_the_command_line_has_its_changes() -> None:
    way = parse_way("short=two legs.dense.depth=5 fold_from=null sort=recency")

    assert way == Way(
        "short", "two", {"legs": {"dense": {"depth": 5}}, "fold_from": None, "sort": "recency"}
    )


def test_a_way_without_a_profile_begins_with_the_default() -> None:
    assert parse_way("as it is=") == Way("as it is")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("default", "is not 'NAME=PROFILE"),
        ("=default", "is not 'NAME=PROFILE"),
        ("x=default legs.graph", "is not FIELD=VALUE"),
        ("x=default a=1 a.b=1", "is already a value"),
    ],
)
def test_a_malformed_way_is_refused_with_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_way(text)


def test_the_legs_of_a_way_are_those_of_its_profile_with_its_changes() -> None:
    assert legs_of(Way("all"), PROFILES) == ("dense", "facts", "graph", "lexical")
    assert legs_of(Way("two", "two"), PROFILES) == ("dense", "lexical")
    assert legs_of(parse_way("x=two legs.graph.weight=1 legs.dense=null"), PROFILES) == (
        "graph",
        "lexical",
    )


def test_an_unknown_profile_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no profile is called 'three'; known: default, two"):
        legs_of(Way("x", "three"), PROFILES)


def test_an_ablation_keeps_all_other_changes() -> None:
    way = parse_way("x=default legs.graph.depth=5 limit=7")

    assert without(way, "graph", PROFILES) == Way(
        "x - graph", "default", {"limit": 7, "legs": {"graph": {"depth": 5, "weight": 0}}}
    )
    assert way.changes["legs"] == {"graph": {"depth": 5}}


def test_a_leg_that_is_not_there_cannot_be_taken_away() -> None:
    with pytest.raises(ValueError, match="'two' carries no leg 'graph', but dense, lexical"):
        without(Way("two", "two"), "graph", PROFILES)


def test_by_default_each_leg_is_asked_alone_and_left_out() -> None:
    asked = {way.name: legs_of(way, PROFILES) for way in default_ways(PROFILES)}

    assert asked == {
        "default": ("dense", "facts", "graph", "lexical"),
        "lexical": ("lexical",),
        "dense": ("dense",),
        "facts": ("facts",),
        "graph": ("graph",),
        "words + meaning": ("dense", "lexical"),
        "default - lexical": ("dense", "facts", "graph"),
        "default - dense": ("facts", "graph", "lexical"),
        "default - facts": ("dense", "graph", "lexical"),
        "default - graph": ("dense", "facts", "lexical"),
    }


def test_ways_with_the_same_legs_are_asked_once() -> None:
    assert [way.name for way in default_ways(PROFILES, "two")] == ["two", "dense", "lexical"]


@pytest.mark.parametrize(
    "way",
    [
        Way("default"),
        Way("words + meaning", "two", {"legs": {"graph": {"weight": 0}, "dense": None}}),
        Way("all sorts", "two", {"sort": "recency", "fold_from": 0.5, "description": "two words"}),
        Way("empty", "two", {"signals": {}}),
    ],
)
def test_a_way_is_spelled_as_it_is_read(way: Way) -> None:
    assert parse_way(spelled(way)) == way


def test_a_change_is_spelled_as_the_client_takes_it() -> None:
    assert spelled(Way("default").without("graph")) == "default - graph=default legs.graph.weight=0"


def chosen(*given: Way, without_legs: tuple[str, ...] = (), baseline: str = "") -> list[str]:
    return [way.name for way in choose(PROFILES, given, without_legs, baseline)]


def test_the_baseline_comes_first() -> None:
    a, b, default = Way("a", "two"), Way("b", "two"), Way("default")

    assert chosen(a, b) == ["a", "b"]
    assert chosen(a, b, baseline="b") == ["b", "a"]
    assert chosen(a, default) == ["default", "a"]


def test_legs_are_taken_from_the_baseline() -> None:
    assert chosen(without_legs=("graph",)) == ["default", "default - graph"]
    assert chosen(Way("a", "two"), without_legs=("dense",)) == ["a", "a - dense"]


def test_with_nothing_chosen_the_default_ways_are_asked() -> None:
    assert chosen() == [way.name for way in default_ways(PROFILES)]


@pytest.mark.parametrize(
    ("given", "without_legs", "baseline", "why"),
    [
        ([Way("a"), Way("a")], (), "", "two ways are called 'a'"),
        ([Way("a")], (), "b", "no way is called 'b'; there are a"),
        ([Way("a", "none")], (), "", "no profile is called 'none'"),
        ([Way("a", "two")], ("graph",), "", "carries no leg 'graph'"),
    ],
)
def test_a_choice_that_cannot_be_asked_is_refused(
    given: list[Way], without_legs: tuple[str, ...], baseline: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        choose(PROFILES, given, without_legs, baseline)


def test_what_begins_with_others_finds_is_not_asked_alone_and_signals_are_taken_away_too() -> None:
    legs = {leg: {"weight": 1} for leg in ("lexical", "dense")}
    related = {"weight": 1, "expansion": {"found_by": ["lexical", "dense"]}}
    definition = {"legs": {**legs, "related": related}, "signals": {"speaker": 0.5, "access": 0}}

    ways = default_ways([Profile(name="default", description="", definition=definition)])

    assert [way.name for way in ways] == [
        "default",
        "dense",
        "lexical",
        "words + meaning",
        "default - dense",
        "default - lexical",
        "default - speaker",
    ]
    assert ways[-1].changes == {"signals": {"speaker": 0}}
