"""Progress output of a command, on a terminal or in a log."""

from __future__ import annotations

import re
from typing import TextIO

_STEP = re.compile(r"(?P<done>\d+) of (?P<total>\d+)")

LINES_OF_A_LOG = 4
"""How many steps are written to a log; a terminal has one line that is updated."""

CLEAR_LINE = "\r\x1b[K"
"""Returns to the start of a terminal line and clears it."""


class Console:
    """Writes lines of progress; lines with "3 of 216" are steps of one task.

    Args:
        stream: The output.
        name: The prefix of each line.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._within_line = False

    def __call__(self, line: str) -> None:
        """Writes a line. If the output is not a terminal, only some steps are written."""
        step = _STEP.search(line)
        if step is None:
            self._write(line, more=False)
            return
        done, total = int(step["done"]), int(step["total"])
        if self._stream.isatty():
            self._write(line, more=done < total)
        elif done * LINES_OF_A_LOG // total > (done - 1) * LINES_OF_A_LOG // total:
            self._write(line, more=False)

    def _write(self, line: str, *, more: bool) -> None:
        restart = CLEAR_LINE if self._within_line else ""
        self._within_line = more
        self._stream.write(f"{restart}{self._name}: {line}" + ("" if more else "\n"))
        self._stream.flush()
