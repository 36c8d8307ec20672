"""How many examples a slow property tries."""

from __future__ import annotations

from hypothesis import settings

_USUAL = 100
"""What Hypothesis tries by default, and this profile of `tests/conftest.py` too."""


def examples(count: int) -> int:
    """`count` with `--all`; without, the same part of it as of the usual number."""
    return max(1, count * settings().max_examples // _USUAL)
