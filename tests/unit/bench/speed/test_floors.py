"""The least that a pass can cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.gpu.networks.floors import Body, Speed, Work, bert_body, qwen3_body
from bench.gpu.networks.random_weights import PUBLISHED

BFLOAT16_BYTES = 2


@pytest.mark.parametrize(
    ("size", "giga_operations", "gigabytes"),
    [("0.6B", 14.1, 0.88), ("4B", 116, 7.27), ("8B", 222, 13.9)],
)
def test_the_work_of_a_question_is_what_is_known_of_each_size(
    size: str, giga_operations: float, gigabytes: float
) -> None:
    work = qwen3_body(PUBLISHED[size]).work([16], BFLOAT16_BYTES)

    assert work.operations / 1e9 == pytest.approx(giga_operations, rel=0.01)
    assert work.weight_bytes / 1e9 == pytest.approx(gigabytes, rel=0.01)


@pytest.mark.parametrize(
    ("body", "tera_operations"),
    [(bert_body(6, 384, 1536), 0.3), (bert_body(24, 1024, 4096), 8.05)],
    ids=["MiniLM", "bge-reranker-v2-m3"],
)
def test_the_work_of_fifty_pairs_counts_what_tokens_look_at(
    body: Body, tera_operations: float
) -> None:
    work = body.work([256] * 50, BFLOAT16_BYTES)

    assert work.operations / 1e12 == pytest.approx(tera_operations, rel=0.02)


def test_the_floor_is_the_longer_of_reading_and_multiplying() -> None:
    speed = Speed(bytes_per_s=10, operations_per_s=100)

    assert speed.floor_s(Work(weight_bytes=20, operations=100)) == 2
    assert speed.floor_s(Work(weight_bytes=20, operations=400)) == 4


def test_a_token_that_looks_at_none_after_it_has_half_as_many_to_look_at() -> None:
    causal = Body(parameters=0, layers=2, mixed=10, causal=True)

    both_ways = replace(causal, causal=False).work([4, 6], BFLOAT16_BYTES).operations

    assert both_ways == 4 * 2 * 10 * (16 + 36)
    assert causal.work([4, 6], BFLOAT16_BYTES).operations == both_ways / 2
