"""Six small memories of different domains, written for this project; README.md describes them."""

from __future__ import annotations

from pathlib import Path

NAMES = ("care", "car", "clinic", "workshop", "travel", "flat")
FOLDERS = tuple(Path(__file__).parent / name for name in NAMES)
