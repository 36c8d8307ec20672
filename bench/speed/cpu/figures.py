"""The table and the plot of CPU time by what is asked and by process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.harness.results import Record, number, select, table
from bench.reports import plots
from bench.reports.report import figures, markdown_table

CPU = "cpu"
"""The scenario."""

ROLES = {
    "replica Fusion": "replica",
    "neo4j": "Neo4j",
    "postgres": "PostgreSQL",
    "ray": "Ray",
    "haproxy": "HAProxy",
    "client": "client",
}


def cpu_table(records: Sequence[Record]) -> str:
    """A row for each variant: answers a second, and milliseconds of CPU for each answer."""
    rows = [
        (
            _name(each),
            figures(number(each, "throughput_per_s")),
            figures(number(each, "latency", "p50_ms")),
            figures(number(each, "measured", "cpu", "total_ms")),
            *(figures(_of(each, role)) for role in ROLES),
        )
        for each in select(records, CPU)
    ]
    return markdown_table(("asked", "answers/s", "p50 ms", "CPU ms", *ROLES.values()), rows)


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a bar for each variant, divided by process."""
    measured = select(records, CPU)
    figure = plots.canvas(11, 0.55 * len(measured) + 1.6)
    axes = figure.add_subplot()
    plots.prepare(axes)
    left = [0.0] * len(measured)
    for role, colour in zip(ROLES, plots.COLOURS, strict=False):
        values = [_of(each, role) for each in measured]
        axes.barh(range(len(left)), values, left=left, height=0.62, color=colour, label=role)
        left = [before + value for before, value in zip(left, values, strict=True)]
    plots.name_bars(axes, [_name(each) for each in measured])
    axes.legend(frameon=False, loc="lower right")
    plots.head(axes, "CPU time of an answer", "ms, by process")
    plots.save(figure, path)


def _name(record: Record) -> str:
    return str(table(record, "parameters").get("variant"))


def _of(record: Record, role: str) -> float:
    return number(record, "measured", "cpu", "by_role_ms", role) or 0.0
