"""Invalid values of a ranking profile, each with the path of its field."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """An invalid value; `path` is its field, with dots between the parts."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why


class FieldError(ValueError):
    """One or more values of a profile are invalid."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(*faults)
        self.faults = faults

    @classmethod
    def of(cls, path: str, why: str) -> FieldError:
        """The error for one value."""
        return cls(Fault(path, why))

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))

    def within(self, section: str) -> FieldError:
        """The same error for a section of a larger value."""
        return FieldError(*(Fault(f"{section}.{path}", why) for path, why in self.faults))


def require_range(path: str, value: float, least: float, most: float) -> None:
    """Raises `FieldError` for a number that is not from `least` to `most`, such as NaN."""
    if not least <= value <= most:
        raise FieldError.of(path, f"must be from {least:g} to {most:g}, got {value}")
