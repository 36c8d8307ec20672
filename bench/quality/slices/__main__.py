"""Cuts a small set from a large one, always the same: `python -m bench.quality.slices FOLDER OUT`.

Some judged questions are drawn, all segments that answer them are kept, and others are drawn to
fill up; then the facts and relations of what was kept. Lines are kept as they are. A slice is
easier than its set, since fewer segments distract: its figures compare with its own alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import click

from bench.harness.collection import (
    CORPUS,
    JUDGMENTS,
    QUERIES,
    RELATIONS,
    judgments_of,
    read_judgments,
)
from trivium.files.records import Problem

Lines = Sequence[str]


class SliceError(Exception):
    """No such slice can be cut; the message says why."""


def cut(folder: Path, *, queries: int, passages: int, seed: int) -> dict[str, Lines]:
    """Cuts a slice.

    Args:
        folder: The set.
        queries: How many judged questions to keep.
        passages: How many segments to keep in all.
        seed: Of both draws.

    Returns:
        The lines of each file by its name, in the order in which they stand in the set.

    Raises:
        OSError: A file is missing.
        SliceError: The set has not so many questions or segments, the questions have more
            answers than segments are wanted, or a line cannot be read.
    """
    draw = random.Random(seed)
    judged = judgments_of(folder)
    relevant = read_judgments(judged, _refuse)
    asked = _lines(folder / QUERIES)
    answerable = [id_ for id_ in map(_id, asked) if id_ in relevant]
    chosen = _drawn(draw, answerable, queries, "judged questions")
    corpus = _lines(folder / CORPUS)
    gold = {id_ for query in chosen for id_ in relevant[query]}
    others = [id_ for id_ in map(_id, corpus) if id_ not in gold]
    if len(gold) > passages:
        raise SliceError(f"{queries} questions have {len(gold)} answers, more than {passages}")
    kept = gold | _drawn(draw, others, passages - len(gold), "other segments")
    judgments = [line for line in _lines(judged) if _within(line, chosen, kept)]
    relations = {
        name: _where(folder / name, lambda line: _evidence(line) & kept)
        for name in RELATIONS
        if (folder / name).exists()
    }
    return {
        CORPUS: [line for line in corpus if _id(line) in kept],
        QUERIES: [line for line in asked if _id(line) in chosen],
        JUDGMENTS[0]: judgments,
        **relations,
    }


def write(files: Mapping[str, Lines], out: Path) -> int:
    """Writes a slice; returns its size in bytes."""
    out.mkdir(parents=True, exist_ok=True)
    size = 0
    for name, lines in files.items():
        encoded = "".join(f"{line}\n" for line in lines).encode()
        size += (out / name).write_bytes(encoded)
    return size


def _drawn(draw: random.Random, of: Sequence[str], count: int, what: str) -> set[str]:
    if count > len(of):
        raise SliceError(f"the set has {len(of)} {what}, fewer than {count}")
    return set(draw.sample(of, count))


def _lines(path: Path) -> Lines:
    # Not `splitlines`: a text may hold what Unicode takes for the end of a line.
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _where(path: Path, holds: Callable[[str], Any]) -> Lines:
    return [line for line in _lines(path) if holds(line)]


def _within(judgment: str, queries: AbstractSet[str], segments: AbstractSet[str]) -> bool:
    query, segment, _ = judgment.split("\t")
    return query in queries and segment in segments


def _id(line: str) -> str:
    record = json.loads(line)
    return str(record.get("id", record.get("_id")))


def _evidence(line: str) -> set[str]:
    """The segments that a fact rests on; what rests on none is of no segment."""
    record = json.loads(line)
    found = record.get("evidence") or record.get("doc_id") or ()
    ids: Iterable[str] = [found] if isinstance(found, str) else found
    return set(ids)


def _refuse(problem: Problem) -> None:
    raise SliceError(str(problem))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.option("--queries", type=click.IntRange(min=1), required=True, help="Judged questions.")
@click.option("--passages", type=click.IntRange(min=1), required=True, help="Segments in all.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw.")
def main(folder: Path, out: Path, queries: int, passages: int, seed: int) -> None:
    """Cut a slice of the set in FOLDER, and write it to OUT."""
    try:
        files = cut(folder, queries=queries, passages=passages, seed=seed)
    except (OSError, SliceError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    size = write(files, out)
    counts = ", ".join(f"{len(lines)} lines of {name}" for name, lines in files.items())
    click.echo(f"{size / 1024:.0f} KiB: {counts}")


if __name__ == "__main__":
    main()
