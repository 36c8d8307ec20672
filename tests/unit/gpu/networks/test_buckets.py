"""The planned batch shapes, and the choice of one for a batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.gpu.networks.buckets import Bucket, BucketPlan

budgets = st.integers(0, 6000)
windows = st.integers(1, 3000)


@st.composite
def batches(draw: st.DrawFn) -> tuple[BucketPlan, Bucket]:
    """A plan and the shape of a batch, about half of them within the budget."""
    window = draw(windows)
    budget = draw(budgets)
    length = draw(st.integers(1, window))
    rows = draw(st.integers(1, 1 + 2 * budget // length))
    return BucketPlan(token_budget=budget, window=window), Bucket(rows, length)


def holds(bucket: Bucket, batch: Bucket) -> bool:
    return bucket.rows >= batch.rows and bucket.length >= batch.length


@given(batches())
def test_smallest_bucket_holding_the_batch_is_chosen(case: tuple[BucketPlan, Bucket]) -> None:
    plan, batch = case
    holding = [bucket for bucket in plan.buckets if holds(bucket, batch)]
    chosen = plan.choose(batch.rows, batch.length)

    if chosen is None:
        assert holding == []
    else:
        assert chosen in holding
        assert chosen.tokens == min(bucket.tokens for bucket in holding)


@given(batches())
def test_bucket_wastes_a_bounded_part(case: tuple[BucketPlan, Bucket]) -> None:
    plan, batch = case
    chosen = plan.choose(batch.rows, batch.length)

    if chosen is not None:
        assert chosen.rows <= 1.5 * batch.rows
        assert chosen.length <= max(1.25 * batch.length, batch.length + 7)


@given(budgets, windows)
def test_buckets_are_distinct_and_the_largest_comes_first(budget: int, window: int) -> None:
    buckets = BucketPlan(token_budget=budget, window=window).buckets
    tokens = [bucket.tokens for bucket in buckets]

    assert tokens == sorted(tokens, reverse=True)
    assert len(set(buckets)) == len(buckets)
    assert all(bucket.tokens <= budget and bucket.length <= window for bucket in buckets)


def test_instructed_question_wastes_two_tokens_of_forty() -> None:
    plan = BucketPlan(token_budget=4096, window=2048)

    assert plan.choose(1, 38) == Bucket(1, 40)
    assert plan.choose(32, 38) == Bucket(32, 40)


def test_beyond_the_budget_there_is_no_bucket() -> None:
    plan = BucketPlan(token_budget=4096, window=2048)

    assert plan.choose(2, 2048) == Bucket(2, 2048)
    assert plan.choose(3, 2048) is None
    assert plan.choose(5000, 1) is None
