"""How what remains of a deadline is split."""

from __future__ import annotations

import pytest

from serving.domain import budget
from serving.domain.budget import RANKING, RERANKED_ORDER, VECTOR_SEARCH, Deadline, Split
from tests.support.stepped_clock import SteppedClock

SPLITS = [value for value in vars(budget).values() if isinstance(value, Split)]


def within(seconds: float) -> Deadline:
    return Deadline.after(seconds, SteppedClock())


@pytest.mark.parametrize(
    ("split", "left_s", "expected_s"),
    [
        (RANKING, 0.020, 0.005),
        (RANKING, 0.100, 0.020),
        (RANKING, 0.300, 0.030),
        (RANKING, 5.0, 0.100),
        (RERANKED_ORDER, 0.300, 0.003),
        (RERANKED_ORDER, 0.001, 0.001),
        (VECTOR_SEARCH, 0.030, 0.015),
        (VECTOR_SEARCH, 0.300, 0.020),
        (VECTOR_SEARCH, 8.0, 0.200),
    ],
)
def test_split_is_a_share_within_bounds(split: Split, left_s: float, expected_s: float) -> None:
    assert split.seconds(within(left_s)) == pytest.approx(expected_s)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("left_s", [0.0, 0.001, 0.1, 60.0])
def test_split_never_exceeds_the_deadline(split: Split, left_s: float) -> None:
    deadline = within(left_s)

    before, only = split.before(deadline), split.only(deadline)

    assert before.remaining() + only.remaining() == pytest.approx(left_s)
    assert max(before.at, only.at) <= deadline.at
