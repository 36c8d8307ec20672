"""The result of a check of the doctor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check."""

    part: str
    ok: bool
    text: str
