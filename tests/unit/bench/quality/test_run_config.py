from __future__ import annotations

import pytest

from bench.quality.run_config import (
    RunConfig,
    choose_configs,
    default_configs,
    format_config,
    gate_configs,
    legs_of,
    parse_config,
)
from trivium.tuning import Profile


def profile(name: str, **weights: float) -> Profile:
    legs = {leg: {"weight": weight, "depth": 20} for leg, weight in weights.items()}
    return Profile(name=name, description="", definition={"legs": legs, "limit": 10})


FOUR = profile("default", lexical=1, dense=1, facts=1, graph=2)
TWO = profile("two", lexical=1, dense=1, graph=0)
PROFILES = (FOUR, TWO)


@pytest.mark.parametrize(
    "config",
    [
        RunConfig("default"),
        RunConfig("words + meaning", "two", {"legs": {"graph": {"weight": 0}, "dense": None}}),
        RunConfig("all sorts", "two", {"sort": "recency", "description": "two words"}),
        RunConfig("empty", "two", {"signals": {}}),
    ],
)
def test_formatted_config_parses_to_itself(config: RunConfig) -> None:
    assert parse_config(format_config(config)) == config


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("default", "is not 'NAME=PROFILE"),
        ("=default", "is not 'NAME=PROFILE"),
        ("x=default legs.graph", "is not FIELD=VALUE"),
    ],
)
def test_malformed_config_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_config(text)


def test_changes_decide_the_legs_of_a_config() -> None:
    changed = parse_config("x=two legs.graph.weight=1 legs.dense=null")

    assert legs_of(RunConfig("two", "two"), PROFILES) == ("dense", "lexical")
    assert legs_of(changed, PROFILES) == ("graph", "lexical")


def test_default_configs_measure_each_leg() -> None:
    configs = {config.name: legs_of(config, PROFILES) for config in default_configs(PROFILES)}

    assert configs == {
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


def test_configs_with_equal_legs_are_measured_once() -> None:
    names = [config.name for config in default_configs([profile("default", lexical=1, dense=1)])]

    assert names == ["default", "dense", "lexical"]


def test_expanding_leg_is_not_measured_alone() -> None:
    legs = {leg: {"weight": 1} for leg in ("lexical", "dense")}
    related = {"weight": 1, "expansion": {"found_by": ["lexical", "dense"]}}
    definition = {"legs": {**legs, "related": related}, "signals": {"speaker": 0.5, "access": 0}}
    profiles = [Profile(name="default", description="", definition=definition)]

    assert [config.name for config in gate_configs(profiles)] == ["default", "dense", "lexical"]
    assert default_configs(profiles)[-1].changes == {"signals": {"speaker": 0}}


def chosen(*given: RunConfig, without_legs: tuple[str, ...] = (), baseline: str = "") -> list[str]:
    return [config.name for config in choose_configs(PROFILES, given, without_legs, baseline)]


def test_baseline_comes_first() -> None:
    a, b, default = RunConfig("a", "two"), RunConfig("b", "two"), RunConfig("default")

    assert chosen(a, b) == ["a", "b"]
    assert chosen(a, b, baseline="b") == ["b", "a"]
    assert chosen(a, default) == ["default", "a"]
    assert chosen(without_legs=("graph",)) == ["default", "default - graph"]


@pytest.mark.parametrize(
    ("given", "without_legs", "baseline", "why"),
    [
        ([RunConfig("a"), RunConfig("a")], (), "", "two configurations are called 'a'"),
        ([RunConfig("a")], (), "b", "no configuration is called 'b'; there are a"),
        ([RunConfig("a", "none")], (), "", "no profile is called 'none'; known: default, two"),
        ([RunConfig("a", "two")], ("graph",), "", "has no leg 'graph', but dense, lexical"),
    ],
)
def test_impossible_choice_is_refused(
    given: list[RunConfig], without_legs: tuple[str, ...], baseline: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        choose_configs(PROFILES, given, without_legs, baseline)
