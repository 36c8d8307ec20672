"""The words that the glossary retires are found nowhere else."""

from __future__ import annotations

import re

import pytest

from tests.support.tracked_files import ROOT, tracked_files

ROW = re.compile(r"^\| (?P<word>[a-z, ]+) \| (?P<ticks>`+)(?P<pattern>.+?)(?P=ticks) \|", re.M)

EXEMPT = (
    "CHANGELOG.md",
    "docs/glossary.md",
    "bench/baselines/",
    "bench/quality/pairs/",
    "bench/results/",
    "clients/python/trivium/v1/",
    "serving/domain/languages/english_further_words.txt",
    "serving/domain/languages/english_words.txt",
)
"""Names of before, the table itself, data, memories as people speak, generated code, and a list of
English words."""


def retired() -> dict[str, re.Pattern[str]]:
    """The pattern of each retired word; a bar is escaped in a table of Markdown."""
    table = (ROOT / "docs/glossary.md").read_text()
    return {
        row["word"]: re.compile(row["pattern"].replace(r"\|", "|")) for row in ROW.finditer(table)
    }


def texts() -> dict[str, str]:
    """The tracked text files by path."""
    found = {}
    for path in tracked_files():
        if path.endswith(".jsonl") or path.startswith(EXEMPT):
            continue
        try:
            found[path] = (ROOT / path).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue
    return found


@pytest.fixture(scope="module")
def searched() -> dict[str, str]:
    return texts()


def test_glossary_lists_retired_words() -> None:
    assert len(retired()) >= 25


@pytest.mark.parametrize("word", retired())
def test_retired_word_is_in_no_other_text(word: str, searched: dict[str, str]) -> None:
    pattern = retired()[word]

    found = [
        f"{path}:{number}: {line.strip()}"
        for path, text in searched.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]

    assert found == []
