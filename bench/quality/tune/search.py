"""Coordinate search: one field of a profile at a time, over all fields, until none gains.

A profile that the service would refuse is never a candidate. So the search cannot cross a region
of such profiles, and ends where no single field helps: at a local optimum, which depends on the
start and on the order of the fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.quality.tune.coordinates import Coordinate, Definition, changed, reachable, value_at
from serving.domain.ranking.profile import Profile

LEAST_GAIN = 2e-4
"""Of the objective, for a value to be taken: less is no more than one question's luck."""

MAX_SWEEPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One value that was tried.

    Args:
        sweep: The pass over all fields, from 1.
        path: The field.
        value: What was tried in it.
        worth: What the objective says of it; not a number if no service would keep such a profile.
        taken: Whether the search went on from there.
    """

    sweep: int
    path: str
    value: Any
    worth: float
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Where a search ended.

    Args:
        definition: The profile, in the form of a profile file.
        profile: The same as the pipeline takes it.
        before: What the start is worth.
        after: What the profile is worth.
        steps: Every value tried, in order.
    """

    definition: Definition
    profile: Profile
    before: float
    after: float
    steps: Sequence[Step]


class CoordinateSearch:
    """Searches from one start.

    Args:
        name: Of the profile.
        start: The profile to start with, which a service would keep.
        coordinates: The fields, in the order in which they are searched.
        advance: Called after each field.
    """

    def __init__(
        self,
        name: str,
        start: Definition,
        coordinates: Sequence[Coordinate],
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._start = start
        self._coordinates = coordinates
        self._advance = advance

    def run(self, objective: Callable[[Profile], float]) -> Searched:
        """Searches for the profile of which the objective is largest.

        Raises:
            ValueError: The start is no profile that a service would keep.
        """
        definition, profile = self._start, reachable(self._name, self._start)
        if profile is None:
            raise ValueError(f"profile {self._name!r} is refused by the service as it stands")
        before = best = objective(profile)
        steps: list[Step] = []
        for sweep in range(1, MAX_SWEEPS + 1):
            at_first = best
            for coordinate in self._coordinates:
                tried = [
                    self._step(sweep, coordinate.path, value, definition, objective)
                    for value in coordinate.values
                    if value != value_at(definition, coordinate.path)
                ]
                taken = _best_of(tried)
                if taken is not None and taken.worth > best + LEAST_GAIN:
                    definition = changed(definition, taken.path, taken.value)
                    best = taken.worth
                    tried = [replace(each, taken=each is taken) for each in tried]
                steps += tried
                self._advance()
            if best == at_first:
                break
        profile = reachable(self._name, definition)
        assert profile is not None, "only reachable profiles are taken; this is a bug"
        return Searched(
            definition=definition, profile=profile, before=before, after=best, steps=steps
        )

    def _step(
        self,
        sweep: int,
        path: str,
        value: Any,
        at: Definition,
        objective: Callable[[Profile], float],
    ) -> Step:
        profile = reachable(self._name, changed(at, path, value))
        worth = math.nan if profile is None else objective(profile)
        return Step(sweep=sweep, path=path, value=value, worth=worth)


def _best_of(steps: Sequence[Step]) -> Step | None:
    """The step of the largest worth, the first of several; None if none is a candidate."""
    candidates = [step for step in steps if not math.isnan(step.worth)]
    return max(candidates, key=lambda step: step.worth, default=None)
