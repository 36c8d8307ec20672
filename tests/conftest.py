"""Fixtures live in one plugin per concern, `fix_*.py`."""

from __future__ import annotations

from pathlib import Path

pytest_plugins = sorted(f"tests.{path.stem}" for path in Path(__file__).parent.glob("fix_*.py"))
