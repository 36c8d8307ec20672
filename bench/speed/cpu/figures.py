"""The table and the plot of CPU time by way and process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.harness.results import Record, number, select, table
from bench.reports.plots import COLOURS, head, name_bars, prepare
from bench.reports.report import figures, markdown_table

CPU = "cpu"
"""The scenario."""

ROLES = ("replica Fusion", "neo4j", "postgres", "ray", "haproxy", "client")


def cpu_table(records: Sequence[Record]) -> str:
    """A row for each way: answers a second, and milliseconds of CPU for each answer."""
    rows = [
        (
            str(table(each, "parameters")["way"]),
            figures(number(each, "throughput_per_s")),
            figures(number(each, "latency", "p50_ms")),
            figures(number(each, "measured", "cpu", "total_ms")),
            *(figures(_of(each, role)) for role in ROLES),
        )
        for each in select(records, CPU)
    ]
    roles = ("replica", "Neo4j", "PostgreSQL", "Ray", "HAProxy", "client")
    return markdown_table(("asked", "answers/s", "p50 ms", "CPU ms", *roles), rows)


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a bar for each way, divided by process."""
    measured = select(records, CPU)
    names = [str(table(each, "parameters")["way"]) for each in measured]
    figure = Figure(figsize=(11, 0.55 * len(names) + 1.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    prepare(axes)
    left = [0.0] * len(measured)
    for role, colour in zip(ROLES, COLOURS, strict=False):
        values = [_of(each, role) for each in measured]
        axes.barh(range(len(names)), values, left=left, height=0.62, color=colour, label=role)
        left = [before + value for before, value in zip(left, values, strict=True)]
    name_bars(axes, names)
    axes.legend(frameon=False, loc="lower right")
    head(axes, "CPU time of an answer", "ms, by process")
    figure.savefig(path, dpi=130, facecolor="white")


def _of(record: Record, role: str) -> float:
    return number(record, "measured", "cpu", "by_role_ms", role) or 0.0
