"""How often a tenant may call; on a clock that the test advances."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain import budget
from serving.domain.budget import RANKING, RERANKED_ORDER, VECTOR_SEARCH, Deadline, Split
from serving.domain.errors import RateLimitedError
from serving.domain.items.records import TenantName
from serving.domain.token_buckets import BURST_S, TokenBuckets
from tests.support.stepped_clock import SteppedClock

TENANT = TenantName("tenant")
OTHER = TenantName("other")

PAUSES = st.lists(st.floats(0, 2), min_size=1, max_size=200)
RATES = st.floats(0.1, 50)


def taken(buckets: TokenBuckets, tenant: TenantName = TENANT, calls: int = 1000) -> int:
    """The calls at one moment that find a token."""
    found = 0
    with suppress(RateLimitedError):
        while found < calls:
            buckets.take(tenant)
            found += 1
    return found


@given(PAUSES, RATES)
def test_calls_never_exceed_rate_and_burst(pauses: list[float], rate: float) -> None:
    clock = SteppedClock()
    buckets = TokenBuckets(rate, clock=clock)
    times = []
    for pause in pauses:
        clock.now += pause
        with suppress(RateLimitedError):
            buckets.take(TENANT)
            times.append(clock.now)

    burst = max(1.0, rate * BURST_S)
    for first, begins in enumerate(times):
        for last in range(first, len(times)):
            assert last - first + 1 <= rate * (times[last] - begins) + burst + 1e-3


@given(RATES, st.integers(1, 100))
def test_calls_at_the_rate_are_never_refused(rate: float, calls: int) -> None:
    clock = SteppedClock()
    buckets = TokenBuckets(rate, clock=clock)
    for _ in range(calls):
        buckets.take(TENANT)
        clock.now += 1 / rate


@given(RATES)
def test_retry_after_the_delay_finds_a_token(rate: float) -> None:
    clock = SteppedClock()
    buckets = TokenBuckets(rate, clock=clock)
    taken(buckets)
    with pytest.raises(RateLimitedError) as refused:
        buckets.take(TENANT)
    assert 0 < refused.value.retry_after_s <= 1 / rate + 1e-3
    clock.now += refused.value.retry_after_s

    buckets.take(TENANT)


@pytest.mark.parametrize(("rate", "calls"), [(10, 10), (0.1, 1), (None, 1000)])
def test_burst_is_the_calls_of_a_second(rate: float | None, calls: int) -> None:
    buckets = TokenBuckets(rate, SteppedClock())

    assert taken(buckets) == taken(buckets, OTHER) == calls


def test_refusal_says_the_rate() -> None:
    buckets = TokenBuckets(10, SteppedClock())
    taken(buckets)

    with pytest.raises(RateLimitedError, match="rate of 10 calls per second is used up"):
        buckets.take(TENANT)


def test_reserved_tokens_come_at_the_rate() -> None:
    buckets = TokenBuckets(2, clock=SteppedClock())

    assert [buckets.reserve(TENANT) for _ in range(4)] == [0, 0, 0.5, 1]
    assert TokenBuckets().reserve(TENANT) == 0


def test_full_buckets_are_forgotten() -> None:
    clock = SteppedClock()
    buckets = TokenBuckets(10, clock=clock)
    for number in range(1000):
        clock.now += 0.01
        buckets.take(TenantName(str(number)))

    assert len(buckets) <= 11


# ---------------------------------------------------------------- budgets


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
