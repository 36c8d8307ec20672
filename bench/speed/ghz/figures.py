"""The figures of ghz's open loops: what was answered, refused and late."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.results import Record, number, table
from bench.reports.report import figures, markdown_table

OK, REFUSED, LATE = "OK", "ResourceExhausted", "DeadlineExceeded"


def open_loops_table(records: Sequence[Record]) -> str:
    """A line for each budget; times begin when ghz sends a call."""
    return markdown_table(
        ("budget", "offered/s", "in time/s", "p50 ms", "p95 ms", "refused", "refused p95", "late"),
        [_row(record) for record in records],
    )


def _row(record: Record) -> tuple[str, ...]:
    settings = table(record, "settings")
    rate, calls = number(settings, "rps") or 0.0, number(record, "count") or 0.0
    shares = {status: _of(record, status, "count") / calls for status in (OK, REFUSED, LATE)}
    return (
        str(settings["timeout"]),
        figures(rate),
        figures(shares[OK] * rate),
        figures(_of(record, OK, "p50_ms")),
        figures(_of(record, OK, "p95_ms")),
        f"{shares[REFUSED]:.1%}",
        figures(_of(record, REFUSED, "p95_ms")),
        f"{shares[LATE]:.1%}",
    )


def _of(record: Record, status: str, name: str) -> float:
    """Zero if no call ended with the status."""
    return number(record, "byStatus", status, name) or 0.0
