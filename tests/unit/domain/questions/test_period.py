from __future__ import annotations

from datetime import timedelta

import pytest

from serving.domain.questions.period import Period
from tests.support.builders import NOON, days


@pytest.mark.parametrize(
    ("at", "distance"), [(-2, 2), (0, 0), (0.5, 0), (1, 0), (1.5, 0.5)], ids=str
)
def test_the_distance_is_to_the_nearer_end_and_zero_within(at: float, distance: float) -> None:
    assert Period(NOON, NOON + days(1)).distance(NOON + days(at)) == timedelta(days=distance)


def test_a_period_that_ends_before_it_begins_is_rejected() -> None:
    with pytest.raises(ValueError, match="cannot end"):
        Period(NOON, NOON - days(1))
