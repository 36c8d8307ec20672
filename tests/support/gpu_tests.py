"""Runs the tests that need a GPU: `make test-gpu`. Without one, says what it would need and run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.util import find_spec

import torch

SELECTED = ("-m", "gpu")


def main() -> int:
    """Returns the exit status of pytest; 1 without a GPU or without cuVS."""
    if not torch.cuda.is_available():
        print(plan(collected()))
        return 1
    if find_spec("cuvs") is None:
        print("cuVS is not installed, so its tests would be skipped: `make install-gpu`")
        return 1
    return pytest_status("-v", "--durations", "5")


def pytest_status(*options: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *SELECTED, *options]).returncode


def collected() -> list[str]:
    """The ids of the tests."""
    command = [sys.executable, "-m", "pytest", *SELECTED, "--collect-only", "-q", "--no-header"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if "::" in line]


def plan(tests: list[str]) -> str:
    """What the tests need, and what would be run, on one screen."""
    files = Counter(test.partition("::")[0] for test in tests)
    return "\n".join(
        [
            "Needs: an NVIDIA GPU with 8 GiB, driver 580 or later for CUDA 13, `make install-gpu`.",
            "",
            f"pytest {' '.join(SELECTED)} would run {len(tests)} tests:",
            *(f"{count:>5}  {file}" for file, count in files.items()),
            "",
            "There is no CUDA device: nothing was run.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
