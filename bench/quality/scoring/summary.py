"""Writes the results of a set as Markdown: means, paired differences, groups, and commands."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.results import Record, number, table
from bench.quality.scoring.metrics import ALL_METRICS, CURRENT_FIRST, KEPT
from bench.quality.scoring.outcome import GROUPINGS
from bench.reports.report import counts, estimate, figures, head, markdown_table

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
        rows.append((name_of(record), *cells, _milliseconds(record, "latency")))
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
    metrics = metrics_of(records)
    rows = [
        (
            name_of(record),
            figures(number(record, "n")),
            *(estimate(table(record, "measured", metric)) for metric in metrics),
            _milliseconds(record, "measured", "server"),
            _milliseconds(record, "latency"),
            figures(number(record, "measured", "failed")),
            figures(number(record, "measured", "partial")),
        )
        for record in records
    ]
    columns = ("run", "n", *metrics, "server ms p50 / p95", "client ms", "failed", "partial")
    return markdown_table(columns, rows)


def _milliseconds(record: Record, *path: str) -> str:
    return " / ".join(figures(number(record, *path, f"{each}_ms")) for each in ("p50", "p95"))


def _differences(records: Sequence[Record]) -> str:
    metrics = metrics_of(records)
    rows = [
        (name_of(record), *(marked(difference(record, metric)) for metric in metrics))
        for record in records
    ]
    return markdown_table(("run", *metrics), rows)


def _groups(records: Sequence[Record], grouping: str, metric: str) -> str:
    names = list(table(records[0], "measured", grouping))
    counted = [
        f"{name or 'none'} ({figures(number(records[0], 'measured', grouping, name, 'n'))})"
        for name in names
    ]
    rows = [
        (
            name_of(record),
            *(estimate(table(record, "measured", grouping, name, metric)) for name in names),
        )
        for record in records
    ]
    return markdown_table(("run", *counted), rows)
