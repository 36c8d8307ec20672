r"""Tells text that UTF-8 cannot write: halves of surrogate pairs without their other half.

JSON's escapes can name them (`"\ud83d"` alone, from an emoji cut in two), and Python's strings
can hold them; protobuf's cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

LONE_SURROGATE = "has half of a surrogate pair, which is no character"
"""What is wrong with such a field, to be put after its name."""


def has_lone_surrogate(value: object) -> bool:
    """Whether a string, or any within lists and mappings, has one."""
    if isinstance(value, str):
        return not _is_writable(value)
    if isinstance(value, Mapping):
        return any(has_lone_surrogate(each) for pair in value.items() for each in pair)
    return isinstance(value, Iterable) and any(map(has_lone_surrogate, value))


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
