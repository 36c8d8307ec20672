"""Compares two runs, a line for each number: `python -m bench.reports.compare OLD NEW`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from bench.harness.results import Json, Record, read_records
from bench.reports.report import figures, markdown_table

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
