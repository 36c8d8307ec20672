"""Writes the results of a set as Markdown, of several sets as one table, and draws the means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from bench.harness.results import Record, number, table
from bench.quality.scoring.evaluate import GROUPINGS
from bench.quality.scoring.metrics import ALL_METRICS, CURRENT_FIRST, KEPT
from bench.reports import plots
from bench.reports.report import (
    Column,
    counts,
    estimate,
    figures,
    head,
    markdown_table,
    table_of,
    value,
)

HEADLINES = ("recall@10", "mrr@10", CURRENT_FIRST, KEPT)
"""The metrics in the tables by group, where the set has them; results.jsonl has all."""


def summary(records: Sequence[Record]) -> str:
    """The Markdown of a set; the first record is that of the baseline."""
    sections = [head(records[0])]
    if marks := warnings(records):
        sections.append("\n".join(f"**{mark}**\n" for mark in marks))
    sections.append(_section("Means [95 %]", _means(records)))
    if len(records) > 1:
        title = f"Paired differences to {name_of(records[0])} [95 %]"
        note = "Bold: the whole interval is on one side of 0.\n\n"
        sections.append(_section(title, note + _differences(records[1:])))
    sections += [
        _section(f"{metric} {grouping.replace('_', ' ')}", _groups(records, grouping, metric))
        for grouping in GROUPINGS
        if table(records[0], "measured", grouping)
        for metric in HEADLINES
        if metric in metrics_of(records)
    ]
    commands = [
        (name_of(each), f"`{table(each, 'parameters').get('command')}`") for each in records
    ]
    sections.append(_section("Commands", markdown_table(("run", "command"), commands)))
    return "\n".join(sections)


def headlines(records: Sequence[Record]) -> str:
    """A short table of means, bold where they differ significantly from the baseline."""
    metrics = metrics_of(records)
    rows = []
    for record in records:
        cells = []
        for metric in metrics:
            mean, _, _ = estimate(table(record, "measured", metric)).partition(" ")
            cells.append(f"**{mean}**" if significant(difference(record, metric)) else mean)
        rows.append((name_of(record), *cells, _milliseconds("latency")(record)))
    columns = (f"{table(records[0], 'collection').get('name')}", *metrics, "ms p50 / p95")
    marks = "".join(f"**{mark}**\n\n" for mark in warnings(records))
    return marks + markdown_table(columns, rows)


def name_of(record: Record) -> str:
    """The name of a configuration."""
    return str(table(record, "parameters").get("way"))


def metrics_of(records: Sequence[Record]) -> list[str]:
    """The metrics that a set has."""
    return [each for each in ALL_METRICS if table(records[0], "measured", each)]


def warnings(records: Sequence[Record]) -> list[str]:
    """Faults that make the scores of a configuration meaningless for its ranking."""
    marks = []
    for record in records:
        n, failed, partial = (
            figures(number(record, *path))
            for path in (("n",), ("measured", "failed"), ("measured", "partial"))
        )
        if failed != "0":
            why = counts(table(record, "errors"))
            marks.append(f"{name_of(record)}: {failed} of {n} failed, and score 0 ({why})")
        if partial != "0":
            why = counts(table(record, "measured", "leg_faults"))
            marks.append(f"{name_of(record)}: {partial} of {n} lack a leg ({why})")
    return marks


def difference(record: Record, metric: str) -> Record:
    """The difference to the baseline in a metric; empty for the baseline."""
    return table(record, "measured", "difference", metric)


def significant(found: Record) -> int:
    """-1 if the whole interval is below 0, 1 if it is above, else 0."""
    low, high = number(found, "low"), number(found, "high")
    if high is not None and high < 0:
        return -1
    return int(low is not None and low > 0)


def marked(found: Record) -> str:
    """A difference with its interval, bold if the interval excludes 0."""
    written = estimate(found, "+")
    return f"**{written}**" if significant(found) else written


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}\n"


def _means(records: Sequence[Record]) -> str:
    columns: dict[str, Column] = {
        "run": name_of,
        "n": value("n"),
        **{metric: _estimate("measured", metric) for metric in metrics_of(records)},
        "server ms p50 / p95": _milliseconds("measured", "server"),
        "client ms": _milliseconds("latency"),
        "failed": value("measured", "failed"),
        "partial": value("measured", "partial"),
    }
    return table_of(records, columns)


def _estimate(*path: str) -> Column:
    return lambda record: estimate(table(record, *path))


def _milliseconds(*path: str) -> Column:
    return lambda record: " / ".join(value(*path, f"{each}_ms")(record) for each in ("p50", "p95"))


def _differences(records: Sequence[Record]) -> str:
    def of(metric: str) -> Column:
        return lambda record: marked(difference(record, metric))

    return table_of(records, {"run": name_of} | {each: of(each) for each in metrics_of(records)})


def _groups(records: Sequence[Record], grouping: str, metric: str) -> str:
    columns: dict[str, Column] = {"run": name_of}
    for name in table(records[0], "measured", grouping):
        count = value("measured", grouping, name, "n")(records[0])
        columns[f"{name or 'none'} ({count})"] = _estimate("measured", grouping, name, metric)
    return table_of(records, columns)


# ---------------------------------------------------------------- several sets

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
    cpu_ms = value("measured", "cpu_ms")
    return (
        _set_of(last),
        value("n")(last),
        *(_cell(last, metric) for metric in TITLES),
        ", ".join(value("measured", "marks", each)(last) for each in ("right", "wrong")),
        " -> ".join(dict.fromkeys((cpu_ms(first), cpu_ms(last)))),
    )


def _cell(record: Record, metric: str) -> str:
    mean = number(record, "measured", metric, "mean")
    if mean is None:
        return ""
    found = difference(record, metric)
    return f"{mean:.3f}, {marked(found)}" if found else f"{mean:.3f}"


def _set_of(record: Record) -> str:
    return str(table(record, "collection").get("name"))


# ---------------------------------------------------------------- picture

_COLOURS = {0: plots.COLOURS[0], 1: plots.COLOURS[2], -1: plots.COLOURS[3]}
"""By significance of the difference to the baseline."""


def save_plot(records: Sequence[Record], path: Path) -> None:
    """Draws means with their intervals, a panel for each headline; the baseline is first."""
    metrics = [metric for metric in HEADLINES if metric in metrics_of(records)]
    with plots.picture(path, 4.4 * len(metrics), 0.3 * len(records) + 1.2) as figure:
        for place, metric in enumerate(metrics, start=1):
            axes = plots.panel(figure, place, metric, "", columns=len(metrics))
            for at, record in enumerate(records):
                mean, low, high = (
                    number(record, "measured", metric, part) for part in ("mean", "low", "high")
                )
                colour = _COLOURS[significant(difference(record, metric))]
                if low is not None and high is not None:
                    axes.plot([low, high], [at, at], color=colour, linewidth=2)
                if mean is not None:
                    axes.plot([mean], [at], "o", color=colour, markersize=5)
            axes.set_xlim(0, 1)
            plots.name_bars(axes, [name_of(each) if place == 1 else "" for each in records])
