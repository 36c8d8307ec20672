"""What can go wrong with inverted lists.

ListsError
├── OutOfMemoryError   what there is goes on; a smaller try, or one later, may do
└── DeviceLostError    nothing on the device can be used again by this process
"""

from __future__ import annotations


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


class DeviceLostError(ListsError):
    """The device failed in a way that stays: this process must end."""
