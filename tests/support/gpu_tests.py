"""Runs the tests that need a GPU: `make test-gpu`. Without one, says what it would need and run."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import torch


def main() -> int:
    """Returns the exit status of pytest; 1 without a GPU or without cuVS."""
    if not torch.cuda.is_available():
        print(
            "Needs: an NVIDIA GPU with 8 GiB, driver 580 or later for CUDA 13, `make install-gpu`."
        )
        print("There is no CUDA device: nothing was run, of these tests by file:\n", flush=True)
        pytest_status("--collect-only", "-qq", "--no-header")
        return 1
    if find_spec("cuvs") is None:
        print("cuVS is not installed, so its tests would be skipped: `make install-gpu`")
        return 1
    return pytest_status("-v", "--durations", "5")


def pytest_status(*options: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", "-m", "gpu", *options]).returncode


if __name__ == "__main__":
    sys.exit(main())
