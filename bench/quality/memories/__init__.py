"""Twelve small memories of different domains, written for this project (README.md)."""

from __future__ import annotations

from pathlib import Path

NAMES = (
    *("care", "car", "clinic", "workshop", "travel", "flat"),
    *("shelter", "choir", "wedding", "site", "bakery", "boat"),
)
FOLDERS = tuple(Path(__file__).parent / name for name in NAMES)
