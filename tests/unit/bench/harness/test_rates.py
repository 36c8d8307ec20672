"""Rates are doubled and bisected, over a service that keeps up to a rate that is known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from bench.harness.rates import BISECTIONS, MOST_DOUBLINGS, Bracket, bracket


def keeping_up_to(
    most_per_s: float, asked: list[float] | None = None
) -> Callable[[float], Awaitable[bool]]:
    async def is_kept(rate_per_s: float) -> bool:
        if asked is not None:
            asked.append(rate_per_s)
        return rate_per_s <= most_per_s

    return is_kept


@pytest.mark.parametrize("most_per_s", [37.0, 100.0, 730.0, 1599.0, 9000.0])
async def test_the_highest_rate_that_is_kept_lies_in_the_bracket(most_per_s: float) -> None:
    found = await bracket(keeping_up_to(most_per_s), 100)

    assert found.missed_per_s is not None
    assert found.kept_per_s <= most_per_s < found.missed_per_s
    assert found.missed_per_s - found.kept_per_s <= max(100, most_per_s) / 2**BISECTIONS


async def test_a_goal_that_is_always_kept_ends_the_search_and_has_no_upper_rate() -> None:
    asked: list[float] = []

    found = await bracket(keeping_up_to(float("inf"), asked), 100)

    assert found == Bracket(100 * 2**MOST_DOUBLINGS, None)
    assert len(asked) == MOST_DOUBLINGS + 1


async def test_a_goal_that_is_never_kept_ends_the_search_at_no_rate() -> None:
    asked: list[float] = []

    found = await bracket(keeping_up_to(0.0, asked), 100)

    assert found.kept_per_s == 0
    assert len(asked) == 1 + BISECTIONS
