"""The shipped sets and their stored scores; NOTICE has their origin."""

from __future__ import annotations

from pathlib import Path

FOLDERS = tuple(Path(__file__).parent / name for name in ("musique", "2wiki", "sample"))

EXPECTED = Path(__file__).parent / "expected.jsonl"
"""The scores that `make quality-gate` compares with, and `make quality-gate-store` writes."""
