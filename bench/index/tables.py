"""The tables of the index benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.results import Record, number, select, table
from bench.reports.report import figures, markdown_table

EXACT, SERVED, ALONE = "exact", "served", "faiss alone"
"""The ways in which a corpus is searched."""

REBUILT = "index while it is rebuilt"
"""The scenario of searches during a rebuild."""


def summary(records: Sequence[Record]) -> str:
    """The tables of all ways, if there are any, and of the rebuilds."""
    tables = (ways_table(select(records, "index")), rebuilds(select(records, REBUILT)))
    return "\n\n".join(each for each in tables if each)


def ways_table(records: Sequence[Record]) -> str:
    """The table of the ways; empty without any."""
    if not records:
        return ""
    rows = [
        (
            f"{table(record, 'parameters')['corpus']}, {table(record, 'parameters')['way']}",
            figures(number(record, "measured", "cpu_ms")),
            figures(number(record, "latency", "p99_ms")),
            f"{number(record, 'measured', 'recall'):.4f}",
            figures(number(record, "measured", "scan_floor_ms")),
            probes(record),
            figures(number(record, "measured", "build_s")),
            goal(record),
        )
        for record in records
    ]
    columns = ("corpus, way", "CPU ms", "p99 ms", "recall@10", "floor of a scan, ms")
    return markdown_table((*columns, "probes of lists", "build s", "goal"), rows)


def rebuilds(records: Sequence[Record]) -> str:
    """The table of the rebuilds."""
    rows = [
        (
            f"{number(record, 'parameters', 'rows'):,.0f} "
            f"x {number(record, 'parameters', 'dimension'):.0f}",
            figures(number(record, "parameters", "per_s")),
            figures(number(record, "measured", "quiet_p99_ms")),
            figures(number(record, "latency", "p99_ms")),
            figures(number(record, "measured", "rebuild_s")),
            figures(number(record, "measured", "cores_elsewhere")),
            str(table(record, "measured")["goal"]),
        )
        for record in records
    ]
    columns = ("rows rebuilt", "searches/s", "quiet p99 ms", "p99 ms meanwhile", "rebuild s")
    return markdown_table((*columns, "CPU cores of other processes", "goal"), rows)


def probes(record: Record) -> str:
    """How many lists of how many are read."""
    measured = table(record, "measured")
    return f"{measured['n_probes']} of {measured['n_lists']}" if "n_lists" in measured else ""


def goal(record: Record) -> str:
    """Whether the served way keeps its goal."""
    wanted, cpu = number(record, "measured", "goal_ms"), number(record, "measured", "cpu_ms")
    if table(record, "parameters")["way"] != SERVED or wanted is None or cpu is None:
        return ""
    return f"{wanted} ms: {'reached' if cpu <= wanted else '**missed**'}"
