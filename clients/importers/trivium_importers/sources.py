"""The memories whose exports can be read, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from trivium.files.reading import Found
from trivium.files.records import Record, Report
from trivium.values import Item
from trivium_importers import cogx, graphiti, letta, mem0, plain, qdrant
from trivium_importers.exported import read_export
from trivium_importers.translation import Translation

QDRANT, CSV = "qdrant", "csv"
SOURCES: Mapping[str, Callable[[Iterable[Record], Translation], Iterator[Found[Item]]]] = {
    "mem0": mem0.items,
    "graphiti": graphiti.items,
    "zep": graphiti.items,
    "letta": letta.items,
    QDRANT: qdrant.items,
    "cogx": cogx.items,
    "markdown": plain.items,
    "text": plain.items,
    CSV: plain.items,
}
READERS: Mapping[str, Callable[[Sequence[str], Report], Iterator[Record]]] = {
    "markdown": plain.read_markdown,
    "text": plain.read_text,
    CSV: plain.read_csv,
}
"""Of what is not JSON."""


def read_exported(
    source: str, paths: Sequence[str], translation: Translation, *, text_key: str = ""
) -> Iterator[Found[Item]]:
    """The items of an export; what is not mapped goes to `translation`.

    Args:
        source: One of `SOURCES`.
        paths: Files or folders; "-" is standard input.
        translation: Collects problems, and what is not mapped.
        text_key: Where payloads of Qdrant and rows of CSV have their text; empty means
            `qdrant.TEXT_KEYS`.

    Raises:
        OSError: A file cannot be read.
    """
    items = SOURCES[source]
    if source == QDRANT:
        items = partial(qdrant.items, text_key=text_key)
    elif source == CSV:
        items = partial(plain.items, text_key=text_key)
    read = READERS.get(source, read_export)
    return items(read(paths, translation.problems.append), translation)
