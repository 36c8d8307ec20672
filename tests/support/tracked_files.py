"""The files of the repository that Git tracks."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked_files(*patterns: str) -> list[str]:
    """Their paths from the root, those that match a pattern if there is one."""
    listed = subprocess.check_output(["git", "ls-files", "--", *patterns], cwd=ROOT, text=True)
    return listed.splitlines()
