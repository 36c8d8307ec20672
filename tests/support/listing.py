"""The table of listening processes in docs/operating.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/operating.md"
_ROW = re.compile(r"^\| (?P<processes>`[^|]+`) \| (?P<ports>[^|]+) \| (?P<what>[^|]+) \|$", re.M)

COME_AND_GO = {"ray::IDLE", "ray-dashboard-ServeHead"}
"""Idle workers of Ray, in varying numbers, and a part that the dashboard starts on demand."""


@dataclass(frozen=True)
class Listener:
    """A process of a row, and the ports on which it may listen."""

    process: str
    ports: str
    what: str

    @property
    def needed(self) -> bool:
        """Whether it listens in every running service."""
        return self.process not in COME_AND_GO and not self.ports.endswith("or none")

    def admits(self, command: Sequence[str], port: int, chosen: Mapping[int, int]) -> bool:
        """Whether a process, by its command line, may listen on a port.

        Args:
            command: The first arguments of the process.
            port: Its port.
            chosen: The ports that replace those of the page.
        """
        named = any(
            each.endswith(self.process) or each.startswith(self.process) for each in command
        )
        return named and self._has(port, chosen)

    def _has(self, port: int, chosen: Mapping[int, int]) -> bool:
        if self.ports == "any":
            return port not in chosen.values()
        first, *last = map(int, re.findall(r"\d+", self.ports))
        return first <= port <= last[0] if last else port == chosen.get(first, first)


def listed() -> list[Listener]:
    """The rows of the table."""
    section = PAGE.read_text().partition("## What listens\n")[2].partition("\n## ")[0]
    return [
        Listener(process, row["ports"], row["what"])
        for row in _ROW.finditer(section)
        for process in re.findall(r"`([^`]+)`", row["processes"])
    ]
