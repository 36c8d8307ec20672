"""`trivium recollect`: keeps what helps with a question in a file that an assistant reads."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import click

from trivium.cli.connection import Connection, pass_connection
from trivium.errors import TriviumError
from trivium.files.records import STDIN

BEGIN, END = "<!-- trivium: begin -->", "<!-- trivium: end -->"
_BLOCK = re.compile(rf"{re.escape(BEGIN)}\r?\n.*?{re.escape(END)}(\r?\n)?", re.DOTALL)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("question")
@click.option("--profile", default="", metavar="NAME", help="The profile.  [default: default]")
@click.option("--limit", default=0, metavar="N", help="The number of hits.")
@pass_connection
def recollect(connection: Connection, file: Path, question: str, profile: str, limit: int) -> None:
    """Writes what helps with QUESTION into FILE, in place of what it wrote before.

    The rest of FILE stays as it is. QUESTION is - for standard input. If the
    service does not answer, the file has no block, since the former one was for
    another question.
    """
    if question == STDIN:
        question = sys.stdin.read()
    try:
        with connection.open() as client:
            block = client.briefing(question, profile=profile, limit=limit)
    except TriviumError:
        update(file, "")
        raise
    update(file, block)


def update(file: Path, block: str) -> None:
    """Writes the block into the file at once, so that a reader sees the old text or the new one.

    The rest keeps its bytes, whatever its line ends and encoding are. A link stays a link.

    Raises:
        OSError: The file cannot be read or written.
    """
    file = file.resolve()
    before = ""
    if file.exists():
        with file.open(encoding="utf-8", errors="surrogateescape", newline="") as text:
            before = text.read()
    after = with_block(before, block)
    if after == before:
        return
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as text:
            text.write(after)
        if file.exists():
            shutil.copymode(file, unfinished)
        os.replace(unfinished, file)
    except BaseException:
        os.unlink(unfinished)
        raise


def with_block(text: str, block: str) -> str:
    """The text with the block in place of the former one, or at its end; empty for none."""
    # No stored text can end the block; the comment of the service stays.
    content = block.strip().replace("<!-- trivium:", "< !-- trivium:")
    written = f"{BEGIN}\n{content}\n{END}\n" if content else ""
    replaced, count = _BLOCK.subn(lambda _: written, text, count=1)
    if count or not written:
        return replaced
    between = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{between}{written}"
