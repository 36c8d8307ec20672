"""Generates the blocking client from the asyncio one: `python clients/python/async_to_sync.py`.

With `--check` it writes nothing, and fails if the blocking client is not current.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

FOLDER = Path(__file__).parent / "trivium"
SOURCE = FOLDER / "aio.py"
TARGET = FOLDER / "client.py"

HEADER = """\
# Generated from aio.py by clients/python/async_to_sync.py (make sync-client). Do not edit.
"""
RULES = [
    ("The client for asyncio; `trivium.client` is generated from it.", "The blocking client."),
    ("used within one event loop", "safe to share between threads"),
    ("in this event loop", "in another thread"),
    (r"\basync (?=def |for |with )", ""),
    (r"\bawait ", ""),
    (r"\bAwaitable, ", ""),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bAsync(?=Client|Iterator)", ""),
    (r"\b__a(?=enter__|exit__)", "__"),
    (r"\baio_(?=transport)", ""),
]
"""Each pattern is replaced in the whole text, in this order."""


def to_sync(source: str) -> str:
    """The blocking client for the text of the asyncio one, formatted."""
    for pattern, replacement in RULES:
        source, count = re.subn(pattern, replacement, source)
        if not count:
            raise ValueError(f"nothing in aio.py matches {pattern!r}")
    return _ruff("format", _ruff("check", HEADER + source, "--fix-only", "--quiet"))


def _ruff(command: str, text: str, *options: str) -> str:
    ruff = Path(sysconfig.get_path("scripts")) / "ruff"
    arguments = [str(ruff), command, *options, "--stdin-filename", str(TARGET), "-"]
    return subprocess.check_output(arguments, input=text, text=True)


def main(arguments: list[str]) -> int:
    """Writes or checks the blocking client; returns the exit code."""
    generated = to_sync(SOURCE.read_text())
    if arguments != ["--check"]:
        TARGET.write_text(generated)
    elif TARGET.read_text() != generated:
        print(f"{TARGET} is not current: run make sync-client", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
