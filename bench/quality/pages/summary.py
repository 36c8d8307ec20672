"""Writes a set's results as Markdown: means, paired differences, groups, and how to make each."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.results import Json, Record, number, table
from bench.quality.scoring.metrics import METRICS
from bench.reports.report import counts, estimate, figures, head, markdown_table

HEADLINES = ("recall@10", "mrr@10")
"""The metrics in the tables by group; results.jsonl has all."""

GROUPS = {"by_stratum": "stratum", "by_category": "category"}


def summary(ways: Sequence[Record]) -> str:
    """The Markdown of a set; the first way is the baseline."""
    baseline = name_of(ways[0])
    sections = [head(ways[0])]
    if marks := warnings(ways):
        sections.append("\n".join(f"**{mark}**\n" for mark in marks))
    sections.append(_section("Means [95 %]", _means(ways)))
    if len(ways) > 1:
        title = f"Paired differences to {baseline} [95 %]"
        note = "Bold: the whole interval is on one side of 0.\n\n"
        sections.append(_section(title, note + _differences(ways[1:])))
    sections += [
        _section(f"{metric} by {title}", _groups(ways, grouping, metric))
        for grouping, title in GROUPS.items()
        if table(ways[0], "measured", grouping)
        for metric in HEADLINES
    ]
    sections.append(_section("Commands", _commands(ways)))
    return "\n".join(sections)


def headlines(ways: Sequence[Record]) -> str:
    """A short table of means, bold where they differ significantly from the baseline."""
    rows = []
    for way in ways:
        cells = []
        for metric in METRICS:
            mean, _, _ = estimate(table(way, "measured", metric)).partition(" ")
            cells.append(f"**{mean}**" if significant(difference(way, metric)) else mean)
        rows.append((name_of(way), *cells, times(way)[1]))
    columns = (f"{table(ways[0], 'collection').get('name')}", *METRICS, "ms p50 / p95")
    marks = "".join(f"**{mark}**\n\n" for mark in warnings(ways))
    return marks + markdown_table(columns, rows)


def name_of(way: Record) -> str:
    """The name of a way."""
    return str(table(way, "parameters").get("way"))


def warnings(ways: Sequence[Record]) -> list[str]:
    """Faults that make the figures of a way meaningless for its ranking."""
    marks = []
    for way in ways:
        n, failed, partial = (figures(number(way, *path)) for path in _COUNTS)
        if failed != "0":
            why = counts(table(way, "errors"))
            marks.append(f"{name_of(way)}: {failed} of {n} failed, and score 0 ({why})")
        if partial != "0":
            why = counts(table(way, "measured", "leg_faults"))
            marks.append(f"{name_of(way)}: {partial} of {n} lack a leg ({why})")
    return marks


_COUNTS = (("n",), ("measured", "failed"), ("measured", "partial"))


def times(way: Record) -> tuple[str, str]:
    """p50 / p95 in the server and as the client sees them, in ms."""
    server, client = (
        " / ".join(figures(number(way, *path, f"{each}_ms")) for each in ("p50", "p95"))
        for path in (("measured", "server"), ("latency",))
    )
    return server, client


def difference(way: Record, metric: str) -> Record:
    """The difference of a way to the baseline in a metric; empty for the baseline."""
    return table(way, "measured", "difference", metric)


def significant(found: Record) -> int:
    """-1 if the whole interval is below 0, 1 if it is above, else 0."""
    low, high = number(found, "low"), number(found, "high")
    if high is not None and high < 0:
        return -1
    return int(low is not None and low > 0)


def groups_of(ways: Sequence[Record], grouping: str) -> list[str]:
    """The names of the groups of a grouping."""
    return list(table(ways[0], "measured", grouping))


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}\n"


def _means(ways: Sequence[Record]) -> str:
    rows = [
        (
            name_of(way),
            figures(number(way, "n")),
            *(estimate(table(way, "measured", metric)) for metric in METRICS),
            *times(way),
            figures(number(way, "measured", "failed")),
            figures(number(way, "measured", "partial")),
        )
        for way in ways
    ]
    columns = ("way", "n", *METRICS, "server ms p50 / p95", "client ms", "failed", "partial")
    return markdown_table(columns, rows)


def _differences(ways: Sequence[Record]) -> str:
    rows = [
        (name_of(way), *(marked(difference(way, metric)) for metric in METRICS)) for way in ways
    ]
    return markdown_table(("way", *METRICS), rows)


def marked(found: Record) -> str:
    """A difference with its interval, bold if the interval excludes 0."""
    written = estimate(found, "+")
    return f"**{written}**" if significant(found) else written


def _groups(ways: Sequence[Record], grouping: str, metric: str) -> str:
    names = groups_of(ways, grouping)
    counted = [
        f"{name or 'none'} ({figures(number(ways[0], 'measured', grouping, name, 'n'))})"
        for name in names
    ]
    rows = [
        (
            name_of(way),
            *(estimate(table(way, "measured", grouping, name, metric)) for name in names),
        )
        for way in ways
    ]
    return markdown_table(("way", *counted), rows)


def _commands(ways: Sequence[Record]) -> str:
    return markdown_table(
        ("way", "command"), [(name_of(way), f"`{_command(way)}`") for way in ways]
    )


def _command(way: Record) -> Json:
    return table(way, "parameters").get("command")
