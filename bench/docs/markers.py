"""Finds the generated parts of a Markdown page and rewrites them.

A part stands between two comments, which Markdown does not show:

    <!-- table NAME [ARGUMENT]... -->
    <!-- end -->

is a table on lines of its own, and within a sentence

    <!-- figure BASELINE SCENARIO[PARAMETER=VALUE,...] PATH FORMAT -->23.4<!-- end -->
    <!-- source BASELINE -->commit, date and machine<!-- end -->

A figure must not begin a line: Markdown would take the line for HTML.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

KINDS = ("table", "figure", "source")

_PART = re.compile(
    r"(?P<begin><!-- (?P<kind>\w+) (?P<arguments>[^>]*?) ?-->)(?P<body>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)
_BEGIN = re.compile(rf"<!-- ({'|'.join(KINDS)}) ")

Render = Callable[[str, Sequence[str]], str]
"""The text of a part, by its kind and arguments; raises ValueError or LookupError."""


class MarkerError(Exception):
    """A marker is malformed, or names what does not exist."""


def rewritten(page: str, render: Render) -> str:
    """The page with every generated part written anew.

    Raises:
        MarkerError: A marker is malformed, or `render` rejected its arguments.
    """
    parts = list(_PART.finditer(page))
    if len(parts) != len(_BEGIN.findall(page)):
        raise MarkerError("a generated part has no end, or contains another one")
    for part in parts:
        inline = part["kind"] != "table"
        if inline and page[: part.start()].rpartition("\n")[2].strip() == "":
            raise MarkerError(f"begins a line, which Markdown takes for HTML: {part['begin']}")
    return _PART.sub(lambda part: _rendered(part, render), page)


def _rendered(part: re.Match[str], render: Render) -> str:
    try:
        text = render(part["kind"], shlex.split(part["arguments"]))
    except (ValueError, LookupError, OSError, TypeError) as error:
        raise MarkerError(f"{part['begin']}: {error}") from error
    body = f"\n{text}\n" if part["kind"] == "table" else text
    return f"{part['begin']}{body}{part['end']}"
