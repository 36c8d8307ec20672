r"""Detects lone surrogates, which UTF-8 cannot encode.

JSON escapes can contain them (such as `"\ud83d"`, one half of an emoji), and so can Python strings;
protobuf strings cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

LONE_SURROGATE = "has a lone surrogate, which UTF-8 cannot encode"
"""The error message for such a field, after its name."""


def has_lone_surrogate(value: object) -> bool:
    """Whether a string, or any string within lists and mappings, has a lone surrogate."""
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
