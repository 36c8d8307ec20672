"""The table of what authentication and row-level security cost."""

from __future__ import annotations

from collections.abc import Iterable

from bench.harness.results import Record, number, table
from bench.reports.report import estimate, markdown_table


def security_table(records: Iterable[Record]) -> str:
    """A line for each kind of callers, with intervals of 95 %."""
    lines = [
        (
            str(table(each, "parameters")["callers"]),
            *(
                f"{number(each, 'measured', name):.2f}"
                for name in ("cpu_ms_with", "cpu_ms_without")
            ),
            estimate(table(each, "measured", "cost_ms")),
        )
        for each in records
    ]
    return markdown_table(("callers", "CPU ms with", "CPU ms without", "cost, CPU ms"), lines)
