"""The sample conversation that ships with the desk."""

from __future__ import annotations

from tests.support.tracked_files import ROOT
from trivium import Item
from trivium.files.reading import read_items
from trivium.files.records import Problem

SAMPLE = ROOT / "serving/desk/sample"


def no_problem(problem: Problem) -> None:
    """What a reader of files is given, which must find none."""
    raise AssertionError(str(problem))


def sample_items(*names: str) -> list[Item]:
    """The items of some of its files; by default all."""
    files = [str(SAMPLE / f"{name}.jsonl") for name in names or ("conversation", "facts")]
    return [found.item for found in read_items(files, no_problem)]
