"""A table over several sets: the last configuration, and its differences to the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from bench.harness.results import Record, number, table
from bench.quality.scoring.metrics import CURRENT_FIRST, KEPT
from bench.quality.scoring.summary import difference, marked
from bench.reports.report import figures, markdown_table

TITLES: Mapping[str, str] = {
    "recall@10": "recall@10",
    "mrr@10": "MRR@10",
    CURRENT_FIRST: "current first",
    KEPT: "kept",
}


def overview(records: Sequence[Record]) -> str:
    """A row for each set; its records follow each other, the baseline first."""
    sets = [list(of_set) for _, of_set in groupby(records, key=_set_of)]
    head = ("set", "questions", *TITLES.values(), "marks right, wrong", "CPU ms")
    return markdown_table(head, [_row(of_set) for of_set in sets])


def _row(of_set: Sequence[Record]) -> tuple[str, ...]:
    first, last = of_set[0], of_set[-1]
    marks = ", ".join(figures(number(last, "measured", "marks", each)) for each in _MARKS)
    costs = dict.fromkeys(figures(number(each, "measured", "cpu_ms")) for each in (first, last))
    return (
        str(_set_of(last)),
        figures(number(last, "n")),
        *(_cell(last, metric) for metric in TITLES),
        marks,
        " -> ".join(costs),
    )


_MARKS = ("right", "wrong")


def _cell(record: Record, metric: str) -> str:
    mean = number(record, "measured", metric, "mean")
    if mean is None:
        return ""
    found = difference(record, metric)
    return f"{mean:.3f}, {marked(found)}" if found else f"{mean:.3f}"


def _set_of(record: Record) -> str:
    return str(table(record, "collection").get("name"))
