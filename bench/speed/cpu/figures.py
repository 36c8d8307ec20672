"""The table and the plot of CPU time by what is asked and by process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.harness.results import Record, find, number, select
from bench.reports import plots
from bench.reports.report import Column, figures, latency, parameter, table_of, value

CPU = "cpu"
"""The scenario."""

REPEATED = "default, questions repeated"
"""The variant whose questions are among those whose vectors are kept."""

ROLES = {
    "replica Ingress": "replica",
    "neo4j": "Neo4j",
    "postgres": "PostgreSQL",
    "ray": "Ray",
    "haproxy": "HAProxy",
    "client": "client",
}


def cpu_table(records: Sequence[Record]) -> str:
    """A row for each variant: answers a second, and milliseconds of CPU for each answer."""
    columns: dict[str, Column] = {
        "asked": parameter("variant"),
        "answers/s": value("throughput_per_s"),
        **latency("p50"),
        "CPU ms": value("measured", "cpu", "total_ms"),
        **{name: value(*_BY_ROLE, role) for role, name in ROLES.items()},
    }
    return table_of(select(records, CPU), columns)


def repeated_cost(records: Sequence[Record]) -> str:
    """The cost of a repeated question compared with a new one; empty until both are measured."""
    if find(records, CPU, variant=REPEATED) is None:
        return ""

    def cost(variant: str) -> str:
        found = find(records, CPU, variant=variant)
        p50, cpu = number(found, "latency", "p50_ms"), number(found, "measured", "cpu", "total_ms")
        return f"{figures(p50)} ms (p50) and {figures(cpu)} ms of CPU time"

    return (
        f"A new question takes {cost('default')}, a repeated one,\n"
        f"which is not embedded again, {cost(REPEATED)}."
    )


_BY_ROLE = ("measured", "cpu", "by_role_ms")


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a bar for each variant, divided by process."""
    measured = select(records, CPU)
    figure = plots.canvas(11, 0.55 * len(measured) + 1.6)
    axes = figure.add_subplot()
    plots.prepare(axes)
    left = [0.0] * len(measured)
    for role, colour in zip(ROLES, plots.COLOURS, strict=False):
        values = [number(each, *_BY_ROLE, role) or 0.0 for each in measured]
        axes.barh(range(len(left)), values, left=left, height=0.62, color=colour, label=role)
        left = [before + value for before, value in zip(left, values, strict=True)]
    plots.name_bars(axes, [parameter("variant")(each) for each in measured])
    axes.legend(frameon=False, loc="lower right")
    plots.head(axes, "CPU time of an answer", "ms, by process")
    plots.save(figure, path)
