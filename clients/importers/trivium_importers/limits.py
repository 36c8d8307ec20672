"""The limits of the service, so that a dry run finds what it would reject."""

from __future__ import annotations

from collections.abc import Mapping

from trivium.values import Fact, Item, Segment

MAX_LABELS = 32
MAX_LABEL_KEY_BYTES = 64
MAX_VALUES = 64
"""The maximum number of entities, keywords, or evidence of an item."""
MAX_NAME_BYTES = 256
MAX_BYTES_OF_SEGMENT: Mapping[str, int] = {
    "id": MAX_NAME_BYTES,
    "text": 32 * 1024,
    "title": 1024,
    "kind": 64,
    "speaker": MAX_NAME_BYTES,
    "session": MAX_NAME_BYTES,
    "entity": MAX_NAME_BYTES,
}
MAX_BYTES_OF_FACT: Mapping[str, int] = {
    "id": MAX_NAME_BYTES,
    "subject": MAX_NAME_BYTES,
    "relation": MAX_NAME_BYTES,
    "object": 1024,
    "sentence": 4096,
}


def is_name(text: str, max_bytes: int = MAX_NAME_BYTES) -> bool:
    """Whether the text is not blank, not too long, and without NUL."""
    return bool(text.strip()) and "\0" not in text and len(text.encode()) <= max_bytes


def check_limits(item: Item) -> None:
    """Rejects what the service would reject.

    Raises:
        ValueError: A text is too long or has NUL, or a fact ends before it begins.
    """
    limits = MAX_BYTES_OF_SEGMENT if isinstance(item, Segment) else MAX_BYTES_OF_FACT
    for name, max_bytes in limits.items():
        _check_text(name, getattr(item, name), max_bytes)
    if isinstance(item, Fact):
        _check_validity(item)


def _check_text(name: str, text: str, max_bytes: int) -> None:
    if "\0" in text:
        raise ValueError(f"{name} must not contain NUL")
    if (size := len(text.encode())) > max_bytes:
        raise ValueError(f"{name} must be at most {max_bytes} bytes, has {size}")


def _check_validity(fact: Fact) -> None:
    if fact.valid_from and fact.valid_to and fact.valid_to <= fact.valid_from:
        raise ValueError(f"ends at {fact.valid_to}, and does not begin before {fact.valid_from}")
    if fact.weight is not None and not 0 < fact.weight <= 1:
        raise ValueError(f"weight must be above 0 and at most 1, is {fact.weight:g}")
