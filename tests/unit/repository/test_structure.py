"""Folders stay small enough to be read at a glance."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.tracked_files import ROOT, tracked_files

MOST_ENTRIES = 12
GENERATED = "clients/python/trivium/v1"


def entries() -> dict[str, set[str]]:
    """The modules and packages of each folder with Python code."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in map(Path, tracked_files("*.py")):
        if path.name != "__init__.py":
            found[str(path.parent)].add(path.name)
        for folder in path.parents[:-1]:
            found[str(folder.parent)].add(folder.name)
    return {folder: names for folder, names in found.items() if folder != GENERATED}


@pytest.mark.parametrize("folder", sorted(entries()))
def test_a_folder_has_at_most_twelve_modules_or_folders(folder: str) -> None:
    assert (ROOT / folder).is_dir()
    assert len(entries()[folder]) <= MOST_ENTRIES
