"""Guards are removed in a copy of the tree, and tests notice: ten of `tests/mutations.toml`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.mutations.catalog import ROOT

SAMPLE = 10
LIMIT_S = 120


@pytest.mark.timeout(SAMPLE * LIMIT_S)
def test_a_sample_of_mutants_is_killed() -> None:
    # Drawn by the catalog, so that a tree fails wherever it is tested, or nowhere. `make mutants`
    # runs them all.
    command = ["-m", "tests.mutations", "--sample", str(SAMPLE), "--limit", str(LIMIT_S)]

    run = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr
