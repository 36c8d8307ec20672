"""What is wrong with a profile: every fault that can be found, each with the path of its field."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

Made = TypeVar("Made")


class Fault(NamedTuple):
    """What is wrong with one value; `path` is its field, dots between the parts."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why


class FieldError(ValueError):
    """Values of a profile are not as they must be."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(*faults)
        self.faults = faults

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))


class Gathered:
    """Makes values and gathers what is wrong with them, so that all is told at once."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def made(self, make: Callable[[], Made]) -> Made | None:
        """What `make` makes; None if it refuses."""
        try:
            return make()
        except FieldError as error:
            self._faults += error.faults
            return None

    def finish(self) -> None:
        """Refuses if anything was refused.

        Raises:
            FieldError: Something was; has all of it.
        """
        if self._faults:
            raise FieldError(*self._faults)
