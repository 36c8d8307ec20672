from __future__ import annotations

import math

import pytest

from bench.quality.scoring.intervals import Estimate, mean_interval, paired_difference

TEN_CHATS = [f"chat-{number}" for number in range(10) for _ in range(20)]
"""The chat of each of 200 questions."""

BY_CHAT = [float(number < 5) for number in range(10) for _ in range(20)]
"""All questions to five chats are answered, and none to the other five."""


def of_one_chat(values: list[float]) -> Estimate:
    return mean_interval(values, ["chat"] * len(values))


def width(estimate: Estimate) -> float:
    return estimate.high - estimate.low


def test_interval_narrows_with_more_questions() -> None:
    few, many = of_one_chat([0.0, 1.0] * 20), of_one_chat([0.0, 1.0] * 2000)

    assert few.low < few.mean < few.high
    assert (few.mean, many.mean) == (0.5, 0.5)
    # The normal approximation: 1.96 * 0.5 / sqrt(n).
    assert width(few) == pytest.approx(2 * 0.155, abs=0.03)
    assert width(many) == pytest.approx(2 * 0.0155, abs=0.003)


def test_interval_draws_whole_conversations() -> None:
    by_question, by_chat = of_one_chat(BY_CHAT), mean_interval(BY_CHAT, TEN_CHATS)

    assert by_question.mean == by_chat.mean == 0.5
    # As of 200 and as of 10 coins: 1.96 * 0.5 / sqrt(n).
    assert width(by_question) == pytest.approx(2 * 0.069, abs=0.02)
    assert width(by_chat) == pytest.approx(2 * 0.31, abs=0.1)


def test_five_questions_have_no_interval() -> None:
    few = of_one_chat([-1.0] * 5)

    assert few.mean == -1
    assert math.isnan(few.low)
    assert math.isnan(few.high)
    assert few.as_record() == {"mean": -1, "low": None, "high": None}
    assert of_one_chat([-1.0] * 6).high < 0


def test_paired_difference_is_more_sensitive_than_intervals() -> None:
    old = [number / 100 for number in range(100)]
    new = [value - 0.01 * (number % 2) for number, value in enumerate(old)]
    chats = ["chat"] * len(old)

    assert of_one_chat(new).high > of_one_chat(old).low
    assert paired_difference(new, old, chats).high < 0
    assert paired_difference(old, new, chats).low > 0
    assert paired_difference(new, old, chats).mean == pytest.approx(-0.005)


def test_unequal_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        paired_difference([1.0], [1.0, 0.0], ["a"])
    with pytest.raises(ValueError, match="no values"):
        mean_interval([], [])
    with pytest.raises(ValueError, match="2 values are of 1 clusters"):
        mean_interval([1.0, 0.0], ["a"])
