"""Reads memories in the source format of `bench/quality/pairs` and writes them as a set.

`python -m bench.holds.sources OUT FILE...` writes corpus.jsonl, queries.jsonl, qrels.tsv,
outdated.tsv, holds.tsv and traps.tsv.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

_HEADING = re.compile(r"(scope|as_of|style|bot|language): *(.*)$")
_TURN = re.compile(r"([^:\[]+?)(?: \[([\w-]+)\])?: (.+)$")
_NOT_SPOKEN = re.compile(r"[^\w' ]|_")

FILES = ("corpus.jsonl", "queries.jsonl", "qrels.tsv", "outdated.tsv", "holds.tsv", "traps.tsv")


@dataclass
class Memory:
    """A memory: its turns, its questions, and the lines of judgments by file."""

    headings: dict[str, str] = field(default_factory=dict)
    turns: list[dict[str, Any]] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, list[tuple[str, ...]]] = field(
        default_factory=lambda: {file: [] for file in FILES[2:]}
    )


def read_memory(text: str) -> Memory:
    """Reads a memory.

    Raises:
        ValueError: A line is neither a heading, a time, a turn nor a question.
        KeyError: A question names an unknown label.
    """
    memory = Memory()
    told, _, asked = text.partition("\n---\n")
    labels = _add_turns(memory, _lines(told))
    for number, line in enumerate(_lines(asked), 1):
        _add_question(memory, labels, number, line)
    return memory


def _lines(text: str) -> Iterator[str]:
    stripped = (line.strip() for line in text.splitlines())
    return (line for line in stripped if line and not line.startswith("#"))


def _add_turns(memory: Memory, lines: Iterable[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    at, session, previous = datetime.min, 0, ""
    for line in lines:
        if heading := _HEADING.match(line):
            memory.headings[heading[1]] = heading[2]
        elif line.startswith("@"):
            at = datetime.fromisoformat("T".join(line.split()[1:3]))
            previous, session = "", session + 1
        elif turn := _TURN.match(line):
            speaker, label, text = turn.groups()
            scope = memory.headings["scope"]
            if memory.headings.get("style") == "asr" and speaker != memory.headings["bot"]:
                text = " ".join(_NOT_SPOKEN.sub(" ", text.lower()).split())
            if previous:
                at += timedelta(seconds=5 + len(previous.split()) // 2)
            previous, id_ = text, f"{scope}:t{len(memory.turns):03d}"
            if label:
                labels[label] = id_
            memory.turns.append(
                {
                    "id": id_,
                    "text": text,
                    "speaker": speaker,
                    "timestamp": at.isoformat(),
                    "session": f"{scope}:s{session}",
                    "scope": scope,
                }
            )
        else:
            raise ValueError(f"is neither a heading, a time nor a turn: {line!r}")
    return labels


def _add_question(memory: Memory, labels: dict[str, str], number: int, line: str) -> None:
    category, text, gold, other, own = [*(part.strip() for part in line.split("|")), *[""] * 3][:5]
    scope = memory.headings["scope"]
    id_, as_of = f"{scope}:q{number:02d}", own or memory.headings["as_of"]
    as_of = f"{as_of}T20:00:00" if len(as_of) == len("2026-01-01") else as_of
    memory.questions.append(
        {"id": id_, "text": text, "category": category, "as_of": as_of, "scope": scope}
    )
    for each in gold.split():
        label, _, grade = each.partition("=")
        memory.lines["qrels.tsv"].append((id_, labels[label], grade or "2"))
        if category == "hold" and grade != "1":
            memory.lines["holds.tsv"].append((id_, labels[label]))
    file = {"change": "outdated.tsv", "hold": "traps.tsv"}.get(category)
    if file:
        memory.lines[file] += [(id_, labels[label]) for label in other.split()]


def write_set(out: Path, memories: Iterable[Memory]) -> None:
    """Writes memories as a set that `bench.quality` reads."""
    out.mkdir(parents=True, exist_ok=True)
    texts: dict[str, list[str]] = {file: [] for file in FILES}
    for memory in memories:
        for file, records in ((FILES[0], memory.turns), (FILES[1], memory.questions)):
            texts[file] += [json.dumps(each, ensure_ascii=False) for each in records]
        for file, lines in memory.lines.items():
            texts[file] += ["\t".join(line) for line in lines]
    for file, written in texts.items():
        (out / file).write_text("".join(f"{line}\n" for line in written), encoding="utf-8")


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
def main(out: Path, files: tuple[Path, ...]) -> None:
    """Write the memories of FILES to the folder OUT."""
    write_set(out, [read_memory(file.read_text(encoding="utf-8")) for file in files])


if __name__ == "__main__":
    main()
