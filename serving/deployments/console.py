"""What a command tells while it works, on a terminal or into a log."""

from __future__ import annotations

import re
from typing import TextIO

_STEP = re.compile(r"(?P<done>\d+) of (?P<total>\d+)")

LINES_OF_A_LOG = 4
"""How many of many steps a log has, where a terminal has one line that changes."""

ANEW = "\r\x1b[K"
"""Goes to the start of a terminal's line, and empties it."""


class Console:
    """Tells line by line; those that say "3 of 216" are steps of one piece of work.

    Args:
        stream: Where to.
        name: What each line begins with.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._within_line = False

    def __call__(self, line: str) -> None:
        """Tells a line; of steps, on anything but a terminal, a few."""
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
        anew = ANEW if self._within_line else ""
        self._within_line = more
        self._stream.write(f"{anew}{self._name}: {line}" + ("" if more else "\n"))
        self._stream.flush()
