"""Errors of inverted lists.

ListsError
├── OutOfMemoryError        the index keeps working; a smaller or a later attempt may succeed
└── ListsDeviceLostError    this process cannot use the device again
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from serving.adapters.vector_index import arrays


class ListsError(Exception):
    """A library of inverted lists failed."""


class OutOfMemoryError(ListsError):
    """Memory is short.

    Args:
        what: What did not fit, such as "lists of 1,000,000 rows".
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"no memory for {self.what}"


class ListsDeviceLostError(ListsError):
    """The device failed permanently: this process must end."""


@contextmanager
def needs_memory_for(what: str) -> Iterator[None]:
    """Raises `OutOfMemoryError` for `what` where Python, NumPy or torch runs out of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if arrays.is_out_of_memory(error):
            raise OutOfMemoryError(what) from error
        raise
