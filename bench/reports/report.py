"""Writes results as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from bench.harness.results import Json, Record, number, select, table

Row = Sequence[str]


def summary(records: Sequence[Record]) -> str:
    """The Markdown of a run of `bench.speed`."""
    sections = (
        _section("Questions, c at a time or a second on a schedule", loads_table(records)),
        _section("Where the time goes, ms p50", _splits(records)),
        _section("Where the CPU goes, ms a request", _cpu(records)),
        _section("Writing", writing_table(records)),
    )
    return "\n".join(section for section in sections if section)


def markdown_table(head: Row, rows: Iterable[Row]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    lines = (head, ["---", *("---:" for _ in head[1:])], *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


Column: TypeAlias = Callable[[Record], str]


def table_of(records: Sequence[Record], columns: Mapping[str, Column]) -> str:
    """A table with a row for each record, by the columns of these names; empty for no records."""
    rows = [[column(each) for column in columns.values()] for each in records]
    return markdown_table([*columns], rows) if rows else ""


def value(*path: str) -> Column:
    """The number at a path of keys."""
    return lambda record: figures(number(record, *path))


def percent(*path: str) -> Column:
    """The share at a path of keys; empty where there is none."""
    return lambda record: "" if (share := number(record, *path)) is None else f"{share:.1%}"


def parameter(name: str) -> Column:
    """A parameter as text."""
    return lambda record: str(table(record, "parameters").get(name))


def counted(*path: str) -> Column:
    """The counts by name at a path of keys."""
    return lambda record: counts(table(record, *path))


def latency(*names: str) -> dict[str, Column]:
    """Columns of percentiles, such as "p95"."""
    return {f"{name} ms": value("latency", f"{name}_ms") for name in names}


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}\n" if body else ""


def head(record: Record) -> str:
    """The head of a report: the collection, the time, and the machine."""
    machine, versions = table(record, "machine"), table(record, "versions")
    collection = table(record, "collection")
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"# {collection.get('name')} at {record.get('commit')}\n\n"
        f"{record.get('at')}, {machine.get('cores')} cores of {machine.get('cpu')}, "
        f"{machine.get('memory_gib')} GiB; {collection.get('tenants')} tenants, "
        f"{collection.get('segments')} segments, {collection.get('facts')} facts, "
        f"{collection.get('queries')} questions; settings {record.get('config_hash')}; {named}.\n"
    )


# ---------------------------------------------------------------- tables


def loads_table(records: Sequence[Record]) -> str:
    """The latency, throughput and CPU time of every load; empty for none."""
    columns: dict[str, Column] = {
        "": load_name,
        "answers/s": value("throughput_per_s"),
        **latency("p50", "p95", "p99"),
        "CPU ms": value("measured", "cpu", "total_ms"),
        "errors": counted("errors"),
        "legs not OK": counted("measured", "leg_faults"),
    }
    return table_of(select(records, "load"), columns)


def load_name(load: Record) -> str:
    """The name of a load: its concurrency, or its arrival rate."""
    parameters = table(load, "parameters")
    if parameters.get("loop") == "closed":
        return f"c = {parameters.get('callers')}"
    return f"{figures(number(load, 'parameters', 'rate_per_s'))}/s"


def _splits(records: Sequence[Record]) -> str:
    loads = select(records, "load")
    legs = list(table(loads[0], *_SPLIT, "legs_ms")) if loads else []
    stages = ("embedding", "loading", "ranking", "server", "network")
    columns = {
        "": load_name,
        **{leg: value(*_SPLIT, "legs_ms", leg) for leg in legs},
        **{stage: value(*_SPLIT, f"{stage}_ms") for stage in stages},
    }
    return table_of(loads, columns)


_SPLIT = ("measured", "split")


def _cpu(records: Sequence[Record]) -> str:
    loads = select(records, "load")
    roles = sorted({role for load in loads for role in table(load, *_CPU, "by_role_ms")})
    paths = {role: ("by_role_ms", role) for role in roles} | {
        "**all**": ("total_ms",),
        "cores used": ("cores_used",),
        "CPU cores of other processes": ("cores_elsewhere",),
    }
    rows = [
        (name, *(figures(number(load, *_CPU, *path)) for load in loads))
        for name, path in paths.items()
    ]
    return markdown_table(("process", *map(load_name, loads)), rows) if loads else ""


_CPU = ("measured", "cpu")


def writing_table(records: Sequence[Record]) -> str:
    """Starts, writes and projections; empty for none."""
    names = {
        "healthy after": "start",
        "ingest single": "",
        "ingest batches": "kind",
        "projected": "",
        "visible after": "leg",
    }

    def name(record: Record) -> str:
        scenario = str(record["scenario"])
        return f"{scenario} {table(record, 'parameters').get(names[scenario], '')}".rstrip()

    columns: dict[str, Column] = {
        "what": name,
        "n": value("n"),
        "a second": value("throughput_per_s"),
        **latency("p50", "p95"),
        "remark": _remark,
    }
    return table_of([each for scenario in names for each in select(records, scenario)], columns)


def _remark(record: Record) -> str:
    if (seconds := number(record, "measured", "seconds")) is not None:
        return f"{figures(seconds)} s"
    faults = {**table(record, "measured", "outcomes"), **table(record, "errors")}
    return counts({name: count for name, count in faults.items() if name != "created"})


def estimate(found: Record, sign: str = "") -> str:
    """A mean with its interval, or alone if it has none; the sign "+" is for a difference."""
    mean, low, high = (number(found, part) for part in ("mean", "low", "high"))
    if mean is None:
        return "-"
    if low is None or high is None:
        return f"{mean:{sign}.3f}"
    return f"{mean:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


# ---------------------------------------------------------------- figures


def figures(value: float | None) -> str:
    """A number with three significant figures, or more if it is a whole one."""
    if value is None:
        return "-"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def counts(of: Mapping[str, Json]) -> str:
    """Counts by name, as text."""
    return ", ".join(f"{name}: {count}" for name, count in of.items())
