"""Compares two runs, a line for each number: `python -m bench.reports.compare OLD NEW`.

`pairs_table` compares two versions that were measured several times, in turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from statistics import median

import click

from bench.harness.results import Json, Record, number, read_records, select, table
from bench.reports.report import figures, load_name, markdown_table

IGNORED = frozenset(
    {
        *("curve_ms", "by_category", "by_stratum", "difference", "outcomes", "vectors", "batches"),
        *("n", "low", "high"),
    }
)
FOLLOWING = frozenset({"rate_per_s", "legs", "changes", "baseline", "command"})
"""Parameters that follow from the others, or from the run itself."""


def changes(old: Sequence[Record], new: Sequence[Record]) -> list[tuple[str, float, float]]:
    """The numbers that both runs have, by name."""
    before, after = _numbers(old), _numbers(new)
    return [(name, before[name], after[name]) for name in before if name in after]


def _numbers(records: Sequence[Record]) -> dict[str, float]:
    return {
        f"{_name(record)}: {path}": value
        for record in records
        for part in ("throughput_per_s", "latency", "errors", "measured")
        for path, value in _leaves(part, record.get(part))
    }


def _name(record: Record) -> str:
    parameters = record["parameters"]
    assert isinstance(parameters, Mapping), "a result has parameters; this is a bug"
    values = [str(value) for name, value in parameters.items() if name not in FOLLOWING]
    return " ".join([str(record["scenario"]), *values])


def _leaves(path: str, value: Json) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in IGNORED:
                yield from _leaves(f"{path}.{name}", inner)
    elif isinstance(value, int | float):
        yield path, float(value)


# ---------------------------------------------------------------- pairs

PAIRED: Mapping[str, Sequence[str]] = {
    "answers/s": ("throughput_per_s",),
    "p50 ms": ("latency", "p50_ms"),
    "p95 ms": ("latency", "p95_ms"),
    "CPU ms": ("measured", "cpu", "total_ms"),
}


def pairs_table(records: Sequence[Record]) -> str:
    """How two versions compare under closed load.

    Args:
        records: Of runs in turns: the former version, the present one, the former one, and so on.
    """
    loads = [
        load
        for load in select(records, "load")
        if table(load, "parameters").get("loop") == "closed"
    ]
    former = loads[0]["commit"]
    rows = []
    for name in dict.fromkeys(map(load_name, loads)):
        turns = [load for load in loads if load_name(load) == name]
        before = [load for load in turns if load["commit"] == former]
        after = [load for load in turns if load["commit"] != former]
        for column, path in PAIRED.items():
            old, new = ([number(each, *path) or nan for each in runs] for runs in (before, after))
            ratios = [f"{now / then:.2f}" for then, now in zip(old, new, strict=True)]
            medians = (figures(median(old)), figures(median(new)))
            rows.append((f"{name}, {column}", *medians, ", ".join(ratios)))
    return markdown_table(("", "former", "present", "ratio of each pair"), rows)


@click.command()
@click.argument("old", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("new", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(old: Path, new: Path) -> None:
    """Print what changed from the results in OLD to those in NEW."""
    rows = [
        (name, figures(before), figures(after), f"{after / before - 1:+.0%}" if before else "")
        for name, before, after in changes(read_records(old), read_records(new))
    ]
    click.echo(markdown_table(("", "old", "new", "change"), rows))


if __name__ == "__main__":
    main()
