"""The tables of a growing tenant."""

from __future__ import annotations

from bench.harness.latency import Latency
from bench.harness.results import Json, Record, Result
from bench.harness.sample import multiplied_sample
from bench.scale import Texts, exponent, growth_table


def record(scenario: str, size: int, p95_ms: float = 1.0, **measured: Json) -> Record:
    return Result(
        scenario=scenario,
        parameters={"size": size, "tenant": "one", "callers": 1},
        n=1,
        latency=Latency.of([p95_ms / 1e3]),
        measured=measured,
    ).as_record({})


def test_exponent_is_the_slope_between_the_sizes() -> None:
    records = [record("ask", 10_000, 10.0), record("ask", 1_000_000, 100.0)]

    assert exponent(records, "one", 1) == "0.50"
    assert exponent(records, "one", 8) == "-"


def test_table_has_a_line_for_each_size() -> None:
    records = [
        record("ask", 10_000, 10.0),
        record("grow", 10_000, projected_per_s=600.0),
        record("footprint", 10_000, memory_mib={"postgres": 90}, disk_bytes_per_segment=5000),
        record("restart", 10_000, start_s=20.0),
    ]

    assert "| 10,000 | - | 600 | postgres 90 | 5,000 | 20 | - |" in growth_table(records)


def test_text_of_a_number_is_always_the_same() -> None:
    first, again = (Texts(multiplied_sample(2), "model", 4) for _ in range(2))

    assert first.segment("a", 7) == again.segment("a", 7)
    assert first.segment("a", 7) != first.segment("a", 8)
