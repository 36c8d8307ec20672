"""`make` alone lists what there is, in words."""

from __future__ import annotations

import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_the_list_shows_no_variable_of_make() -> None:
    listed = subprocess.check_output(["make", "--no-print-directory"], cwd=PROJECT, text=True)

    assert "clean" in listed
    assert "$(" not in listed
