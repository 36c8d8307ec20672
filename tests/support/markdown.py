"""What the pages that are written from the code are made of."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 119


def filled(text: str, indent: str = "") -> str:
    """A text with its paragraphs in lines of the width of a page, which the indent continues."""
    paragraphs = (re.sub(r"\s*\n\s*", " ", each) for each in text.strip().split("\n\n"))
    lines = (
        textwrap.fill(each, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
        for each in paragraphs
    )
    return "\n\n".join(lines) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with an empty line before it; nothing without rows. Figures are under `number`."""
    rule = ["---:" if head == "number" else "---" for head in heads]
    written = [heads, rule, *rows]
    lines = "".join(f"| {' | '.join(cells)} |\n" for cells in written)
    return f"\n{lines}" if len(written) > 2 else ""


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
