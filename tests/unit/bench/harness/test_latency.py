from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.harness.latency import Latency, curve_ms, median_ms, percentile

TEN = [float(each) for each in range(1, 11)]


@pytest.mark.parametrize(
    ("share", "expected"), [(0.01, 1), (0.1, 1), (0.11, 2), (0.5, 5), (0.95, 10), (1.0, 10)]
)
def test_percentile_is_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile(TEN, share) == expected


@given(values=st.lists(st.floats(0, 1e3), min_size=1), share=st.floats(0.001, 1))
def test_percentile_is_the_least_value_that_the_share_does_not_exceed(
    values: list[float], share: float
) -> None:
    ordered = sorted(values)

    found = percentile(ordered, share)

    assert sum(each <= found for each in ordered) >= share * len(ordered)
    assert sum(each < found for each in ordered) < share * len(ordered)


def test_latency_is_in_milliseconds_whatever_the_order() -> None:
    latency = Latency.of([0.003, 0.001, 0.002, 0.010])

    assert latency == Latency(mean_ms=4.0, p50_ms=2.0, p95_ms=10.0, p99_ms=10.0, max_ms=10.0)


def test_the_curve_has_the_hundred_percentiles() -> None:
    curve = curve_ms([each / 1e3 for each in range(1, 201)])

    assert len(curve) == 100
    assert (curve[0], curve[49], curve[-1]) == (2, 100, 200)


def test_nothing_measured_has_no_curve_and_a_median_of_0() -> None:
    assert curve_ms([]) == []
    assert median_ms([]) == 0
