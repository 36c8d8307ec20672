"""Finds the highest rate at which a goal is met."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

MOST_DOUBLINGS = 8
BISECTIONS = 4
"""They leave a sixteenth of the highest rate that was kept, at most, open."""


class Bracket(NamedTuple):
    """The highest rate that met the goal, and the lowest that missed it.

    `kept_per_s` is the highest rate that kept it, 0 if none did; `missed_per_s` the lowest that
    did not, None if all did.
    """

    kept_per_s: float
    missed_per_s: float | None


async def bracket(is_kept: Callable[[float], Awaitable[bool]], first_per_s: float) -> Bracket:
    """Doubles a rate until the goal is missed, `MOST_DOUBLINGS` times at most, then bisects.

    Args:
        is_kept: Offers a rate, and returns whether the goal was met.
        first_per_s: The rate to begin with.
    """
    kept, rate = 0.0, first_per_s
    while await is_kept(rate):
        if rate >= first_per_s * 2**MOST_DOUBLINGS:
            return Bracket(rate, None)
        kept, rate = rate, 2 * rate
    missed = rate
    for _ in range(BISECTIONS):
        middle = (kept + missed) / 2
        if await is_kept(middle):
            kept = middle
        else:
            missed = middle
    return Bracket(kept, missed)
