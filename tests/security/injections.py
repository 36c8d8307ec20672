"""`python -m tests.security.injections FOLDER`: puts published attacks into the `<memory>` block.

Reads every text in the files of a folder: lines of text, strings of JSON, and those of Python code.
Each becomes the text and the speaker of a segment, and a part of a fact. Fails if one ends the
block, its line or its quotation, or gets an invisible character through. What a model makes of
the words is not tested.
"""

from __future__ import annotations

import ast
import json
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from serving.domain.briefing import CLOSING, HEADLINE, OPENING, BriefingLimits, briefing
from tests.support.builders import fact, query, segment

LIMITS = BriefingLimits(max_chars=10_000_000, max_line_chars=1_000_000)
INVISIBLE = {"Cc", "Cf", "Cs"}


def texts_of(file: Path) -> Iterator[str]:
    """All texts of a file that is text."""
    content = file.read_bytes().decode(errors="ignore")
    match file.suffix:
        case ".json":
            yield from _strings(json.loads(content))
        case ".jsonl":
            for line in content.splitlines():
                yield from _strings(json.loads(line))
        case ".py":
            for node in ast.walk(ast.parse(content)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
        case ".txt" | ".tsv" | ".csv" | ".md":
            yield content
            yield from content.splitlines()


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in (*value.keys(), *value.values()):
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)


def escapes(text: str) -> Sequence[str]:
    """How a text breaks out of its line of the block; empty if it does not."""
    said = segment("1", text, speaker=text)
    block = briefing([said, fact("2", text, text, text)], query(""), LIMITS)
    headline, *lines = block.removeprefix(OPENING).removesuffix(CLOSING).strip("\n").split("\n")
    inside = "".join(lines)
    quoted = [line.count('"') for line in lines]
    found = {
        "ends the block": not (block.startswith(OPENING) and block.endswith(CLOSING))
        or not headline.endswith(HEADLINE),
        "has a tag": "<" in inside or ">" in inside.replace("->", ""),
        "has another line": len(lines) != 2 or not all(line.startswith("- ") for line in lines),
        "ends its quotation": quoted != [2, 0],
        "is invisible": any(unicodedata.category(each) in INVISIBLE for each in inside),
    }
    return [how for how, is_so in found.items() if is_so]


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
def main(folders: Sequence[Path]) -> None:
    """Puts the texts of files into the memory block."""
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
    texts = {text for file in files for text in texts_of(file) if text.strip()}
    escaped = {text: found for text in texts if (found := escapes(text))}
    for text, found in escaped.items():
        print(f"{', '.join(found)}: {text[:200]!r}", file=sys.stderr)
    print(f"{len(texts)} texts, {len(escaped)} broke out")
    sys.exit(bool(escaped))


if __name__ == "__main__":
    main()
