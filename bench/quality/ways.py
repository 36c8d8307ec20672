"""Ways to measure a set: profiles with changes.

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
WORDS, MEANING = "lexical", "dense"
WORDS_AND_MEANING = "words + meaning"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to ask.

    Args:
        name: What it is called in tables and results.
        profile: The profile it begins with.
        changes: What is changed in that, in the form of a profile file.
    """

    name: str
    profile: str = DEFAULT_PROFILE
    changes: Mapping[str, Any] = field(default_factory=dict)

    def without(self, *legs: str, name: str = "") -> Way:
        """The same with some legs at weight 0.

        Args:
            legs: The legs to take away.
            name: Of the new way; empty means "this - leg - leg".
        """
        given = self.changes.get("legs", {})
        silent = {leg: {**(given.get(leg) or {}), "weight": 0} for leg in legs}
        return Way(
            name or " - ".join((self.name, *legs)),
            self.profile,
            {**self.changes, "legs": {**given, **silent}},
        )


def parse_way(text: str) -> Way:
    """Reads `NAME=PROFILE key=value key=value`, with keys as in `--profile-override`.

    An empty PROFILE is the default one. Values are JSON without blanks, or text.

    Raises:
        ValueError: It has no name, or a change is not `key=value`.
    """
    name, equals, rest = text.partition("=")
    if not (name.strip() and equals):
        raise ValueError(f"{text!r} is not 'NAME=PROFILE key=value ...'")
    profile, _, changes = rest.partition(" ")
    return Way(name.strip(), profile or DEFAULT_PROFILE, parse_overrides(changes.split()))


def spelled(way: Way) -> str:
    """Writes a way so that `parse_way` reads it."""
    changes = [f"{path}={_written(value)}" for path, value in _leaves("", way.changes)]
    return " ".join([f"{way.name}={way.profile}", *changes])


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, inner)
    else:
        yield path, value


def _written(value: Any) -> str:
    # JSON knows another way to write a blank within a text, which would end the change.
    return json.dumps(value, separators=(",", ":")).replace(" ", "\\u0020")


def legs_of(way: Way, profiles: Iterable[Profile]) -> tuple[str, ...]:
    """The legs that a way carries, by name: those of a weight above 0.

    Args:
        way: The way.
        profiles: As the service lists them.

    Raises:
        ValueError: The service has no such profile.
    """
    legs = _definition(way, profiles).get("legs", {})
    # Sorted, since a profile's definition comes as a map without an order.
    return tuple(sorted(name for name, leg in legs.items() if leg.get("weight", 1.0) > 0))


def _definition(way: Way, profiles: Iterable[Profile]) -> Mapping[str, Any]:
    """A way's profile with its changes, as a whole definition."""
    by_name = {profile.name: profile for profile in profiles}
    if way.profile not in by_name:
        known = ", ".join(sorted(by_name))
        raise ValueError(f"way {way.name!r}: no profile is called {way.profile!r}; known: {known}")
    return without_nulls(merged(by_name[way.profile].definition, way.changes))


def _independent(way: Way, profiles: Iterable[Profile]) -> list[str]:
    """The legs of a way that can be asked alone: those that begin with nothing of others."""
    legs = _definition(way, profiles).get("legs", {})
    return [leg for leg in legs_of(way, profiles) if "expansion" not in legs[leg]]


def only(way: Way, legs: Sequence[str], carried: Sequence[str], name: str = "") -> Way:
    """The way with no other than these legs of those that it carries."""
    others = [leg for leg in carried if leg not in legs]
    return way.without(*others, name=name or " + ".join(legs))


def without(way: Way, leg: str, profiles: Iterable[Profile]) -> Way:
    """The ablation of a way by one leg.

    Raises:
        ValueError: It does not carry that leg, so that nothing would be taken away.
    """
    carried = legs_of(way, profiles)
    if leg not in carried:
        raise ValueError(f"way {way.name!r} carries no leg {leg!r}, but {', '.join(carried)}")
    return way.without(leg)


def default_ways(profiles: Sequence[Profile], profile: str = DEFAULT_PROFILE) -> tuple[Way, ...]:
    """Asks what each leg of a profile is worth: all, it alone, words + meaning, all without it.

    And what each signal is: all without it. Two ways with the same legs are one, under the
    name that comes first.

    Raises:
        ValueError: The service has no such profile.
    """
    whole = Way(profile, profile)
    carried = legs_of(whole, profiles)
    ways = [whole, *(only(whole, [leg], carried) for leg in _independent(whole, profiles))]
    if {WORDS, MEANING} <= set(carried):
        ways.append(only(whole, [WORDS, MEANING], carried, WORDS_AND_MEANING))
    ways += [whole.without(leg) for leg in carried]
    by_legs: dict[tuple[str, ...], Way] = {}
    for way in ways:
        by_legs.setdefault(legs_of(way, profiles), way)
    signals = _definition(whole, profiles).get("signals", {})
    return (
        *(way for legs, way in by_legs.items() if legs),
        *(_without_signal(whole, signal) for signal in sorted(signals) if signals[signal] > 0),
    )


def _without_signal(way: Way, signal: str) -> Way:
    """The ablation of a way by one signal."""
    silent = {**way.changes.get("signals", {}), signal: 0}
    return Way(f"{way.name} - {signal}", way.profile, {**way.changes, "signals": silent})


def choose(
    profiles: Sequence[Profile],
    given: Sequence[Way] = (),
    without_legs: Sequence[str] = (),
    baseline: str = "",
) -> tuple[Way, ...]:
    """The ways to ask, the one that the others are compared with first.

    Args:
        profiles: As the service lists them.
        given: Ways named by the user; none asks the default ways, or with `without_legs` the
            default profile.
        without_legs: Legs to take away from the baseline, one at a time.
        baseline: The name of the way to compare with; empty means that of the default profile
            if it is there, else the first.

    Raises:
        ValueError: A profile, a leg or the baseline is not there, or two ways have one name.
    """
    default = (Way(DEFAULT_PROFILE),) if without_legs else default_ways(profiles)
    ways = list(given or default)
    names = [way.name for way in ways]
    wanted = baseline or (DEFAULT_PROFILE if DEFAULT_PROFILE in names else names[0])
    if wanted not in names:
        raise ValueError(f"no way is called {wanted!r}; there are {', '.join(names)}")
    first = ways.pop(names.index(wanted))
    ways = [first, *ways, *(without(first, leg, profiles) for leg in without_legs)]
    for way in ways:
        legs_of(way, profiles)
    twice = [name for name, count in Counter(way.name for way in ways).items() if count > 1]
    if twice:
        raise ValueError(f"two ways are called {twice[0]!r}")
    return tuple(ways)


def gate_ways(profiles: Sequence[Profile]) -> tuple[Way, ...]:
    """What ranking is gated by: the default profile, and each leg alone that can be.

    Fusion hides losses of a leg that others compensate, so legs are also measured alone.

    Raises:
        ValueError: The service has no default profile.
    """
    whole = Way(DEFAULT_PROFILE)
    carried = legs_of(whole, profiles)
    return (whole, *(only(whole, [leg], carried) for leg in _independent(whole, profiles)))
