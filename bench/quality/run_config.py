"""Run configurations: a profile with changes, under a name.

A leg is removed by the weight 0; the service reports it as skipped, not as failed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from serving.config.profiles.book import merged, without_nulls
from trivium.cli.ranking import parse_overrides
from trivium.tuning import Profile

DEFAULT_PROFILE = "default"
LEXICAL, DENSE = "lexical", "dense"
LEXICAL_AND_DENSE = "words + meaning"


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The ranking of the questions of a run: a profile with changes in the form of its file."""

    name: str
    profile: str = DEFAULT_PROFILE
    changes: Mapping[str, Any] = field(default_factory=dict)

    def without(self, *legs: str, name: str = "") -> RunConfig:
        """The same with some legs at weight 0, called "this - leg - leg" unless it has a name."""
        given = self.changes.get("legs", {})
        silent = {leg: {**(given.get(leg) or {}), "weight": 0} for leg in legs}
        changes = {**self.changes, "legs": {**given, **silent}}
        return RunConfig(name or " - ".join((self.name, *legs)), self.profile, changes)

    def without_signal(self, signal: str) -> RunConfig:
        """The ablation by one signal."""
        silent = {**self.changes.get("signals", {}), signal: 0}
        changes = {**self.changes, "signals": silent}
        return RunConfig(f"{self.name} - {signal}", self.profile, changes)


def parse_config(text: str) -> RunConfig:
    """Reads `NAME=PROFILE key=value key=value`, with keys as in `--profile-override`.

    An empty PROFILE is the default one. Values are JSON without blanks, or text.

    Raises:
        ValueError: It has no name, or a change is not `key=value`.
    """
    name, equals, rest = text.partition("=")
    if not (name.strip() and equals):
        raise ValueError(f"{text!r} is not 'NAME=PROFILE key=value ...'")
    profile, _, changes = rest.partition(" ")
    return RunConfig(name.strip(), profile or DEFAULT_PROFILE, parse_overrides(changes.split()))


def format_config(config: RunConfig) -> str:
    """Writes a configuration so that `parse_config` reads it."""
    # JSON can escape a blank within a text, which would end the change.
    changes = [
        f"{path}={json.dumps(value, separators=(',', ':'))}".replace(" ", "\\u0020")
        for path, value in _leaves("", config.changes)
    ]
    return " ".join([f"{config.name}={config.profile}", *changes])


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, inner)
    else:
        yield path, value


def legs_of(config: RunConfig, profiles: Iterable[Profile]) -> tuple[str, ...]:
    """The names of the legs with a weight above 0, by the profiles of the service.

    Raises:
        ValueError: The service has no such profile.
    """
    legs = _definition(config, profiles).get("legs", {})
    # Sorted, since a profile's definition comes as a map without an order.
    return tuple(sorted(name for name, leg in legs.items() if leg.get("weight", 1.0) > 0))


def _definition(config: RunConfig, profiles: Iterable[Profile]) -> Mapping[str, Any]:
    """The profile with the changes, as a whole definition."""
    by_name = {profile.name: profile for profile in profiles}
    if config.profile not in by_name:
        known = ", ".join(sorted(by_name))
        raise ValueError(
            f"configuration {config.name!r}: no profile is called {config.profile!r}; "
            f"known: {known}"
        )
    return without_nulls(merged(by_name[config.profile].definition, config.changes))


def default_configs(profiles: Sequence[Profile]) -> tuple[RunConfig, ...]:
    """Measures what each leg and signal of the default profile is worth.

    These are the whole profile, each leg alone, words + meaning, and the profile without each leg
    and each signal. Of two configurations with the same legs, the first is kept.

    Raises:
        ValueError: The service has no default profile.
    """
    whole, *alone = gate_configs(profiles)
    carried = legs_of(whole, profiles)
    configs = [whole, *alone]
    if {LEXICAL, DENSE} <= set(carried):
        others = [leg for leg in carried if leg not in (LEXICAL, DENSE)]
        configs.append(whole.without(*others, name=LEXICAL_AND_DENSE))
    configs += [whole.without(leg) for leg in carried]
    by_legs: dict[tuple[str, ...], RunConfig] = {}
    for config in configs:
        by_legs.setdefault(legs_of(config, profiles), config)
    signals = _definition(whole, profiles).get("signals", {})
    return (
        *(config for legs, config in by_legs.items() if legs),
        *(whole.without_signal(signal) for signal in sorted(signals) if signals[signal] > 0),
    )


def gate_configs(profiles: Sequence[Profile]) -> tuple[RunConfig, ...]:
    """The configurations of the gate: the default profile, and each leg that can be alone.

    Fusion hides losses of a leg that others compensate, so legs are also measured alone.

    Raises:
        ValueError: The service has no default profile.
    """
    whole = RunConfig(DEFAULT_PROFILE)
    legs, carried = _definition(whole, profiles).get("legs", {}), legs_of(whole, profiles)
    # A leg with an expansion starts from the results of others.
    alone = [leg for leg in carried if "expansion" not in legs[leg]]
    without_others = (
        whole.without(*(other for other in carried if other != leg), name=leg) for leg in alone
    )
    return (whole, *without_others)


def choose_configs(
    profiles: Sequence[Profile],
    given: Sequence[RunConfig] = (),
    without_legs: Sequence[str] = (),
    baseline: str = "",
) -> tuple[RunConfig, ...]:
    """The configurations to measure, the baseline first.

    Without any given they are the default ones, or with `without_legs` the default profile; each of
    these legs is taken away from the baseline. That is by default the default profile if it is
    among them, else the first.

    Raises:
        ValueError: A profile, a leg or the baseline does not exist, or two have one name.
    """
    fallback = (RunConfig(DEFAULT_PROFILE),) if without_legs else default_configs(profiles)
    configs = list(given or fallback)
    names = [config.name for config in configs]
    wanted = baseline or (DEFAULT_PROFILE if DEFAULT_PROFILE in names else names[0])
    if wanted not in names:
        raise ValueError(f"no configuration is called {wanted!r}; there are {', '.join(names)}")
    first = configs.pop(names.index(wanted))
    carried = legs_of(first, profiles)
    if lacking := [leg for leg in without_legs if leg not in carried]:
        raise ValueError(
            f"configuration {first.name!r} has no leg {lacking[0]!r}, but {', '.join(carried)}"
        )
    for config in configs:
        legs_of(config, profiles)
    configs = [first, *configs, *map(first.without, without_legs)]
    twice = [name for name, count in Counter(each.name for each in configs).items() if count > 1]
    if twice:
        raise ValueError(f"two configurations are called {twice[0]!r}")
    return tuple(configs)
