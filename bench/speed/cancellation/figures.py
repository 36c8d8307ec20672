"""The figures of replaced transcripts: how soon the search for the older one is gone, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.harness.latency import Latency
from bench.harness.results import Record, Result, number, select, table
from bench.reports.report import figures, head, markdown_table

CANCELLATION = "cancellation"


def results_of(seconds: Mapping[str, Sequence[float]]) -> list[Result]:
    """A result for each place, of which each has at least one figure, and one for all of them."""
    last = [max(each) for each in zip(*seconds.values(), strict=True)]
    return [
        Result(
            scenario=CANCELLATION,
            parameters={"where": where},
            n=len(taken),
            latency=Latency.of(taken),
        )
        for where, taken in {**seconds, "the last of them": last}.items()
    ]


def summary(records: Sequence[Record]) -> str:
    """The Markdown of a run; `records` has at least one."""
    return f"{head(records[0])}\n{cancellation_table(records)}\n"


def cancellation_table(records: Sequence[Record]) -> str:
    """A line for each place."""
    rows = [
        (
            str(table(each, "parameters").get("where")),
            figures(number(each, "n")),
            *(figures(number(each, "latency", f"{name}_ms")) for name in ("p50", "p95", "max")),
        )
        for each in select(records, CANCELLATION)
    ]
    return markdown_table(("gone from", "transcripts", "p50 ms", "p95 ms", "max ms"), rows)
