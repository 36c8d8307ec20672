"""A disk that can be full."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

AMPLE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system of its own, in memory."""

    root: Path

    def mount(self) -> None:
        """Mounts it, or skips the test."""
        if os.geteuid() != 0:
            pytest.skip("only root can mount a file system of its own")
        self.root.mkdir()
        options = f"size={AMPLE_BYTES},mode=755"
        command = ["mount", "-t", "tmpfs", "-o", options, "test", str(self.root)]
        mounted = subprocess.run(command, capture_output=True, text=True)
        if mounted.returncode:
            pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")

    def fill(self) -> None:
        """Leaves no room for anything further."""
        usage = os.statvfs(self.root)
        self._resize((usage.f_blocks - usage.f_bfree) * usage.f_frsize)

    def free(self) -> None:
        self._resize(AMPLE_BYTES)

    def unmount(self) -> None:
        subprocess.run(["umount", self.root], check=True)

    def _resize(self, size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self.root], check=True)
