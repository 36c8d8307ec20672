"""When a fact holds: the two clocks of a question, and the closings that end a fact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class Clocks(NamedTuple):
    """The clocks of a question: `as_of` for what was true, `known_at` for what was recorded.

    Without `known_at` everything recorded counts, retractions and closings of any time too.
    """

    as_of: datetime
    known_at: datetime | None = None

    def know(self, recorded_at: datetime, retracted_at: datetime | None) -> bool:
        """Whether it was recorded and not yet retracted."""
        if self.known_at is None:
            return retracted_at is None
        return recorded_at <= self.known_at and (
            retracted_at is None or self.known_at < retracted_at
        )


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of a fact's validity: from `at` on, the fact `by` replaces it.

    `recorded_at` and `retracted_at` are those of the fact `by`: the closing counts at the
    clocks at which that fact is known.
    """

    by: str
    at: datetime
    recorded_at: datetime
    retracted_at: datetime | None = None

    def known_by(self, clocks: Clocks) -> bool:
        """Whether the closing is known at these clocks."""
        return clocks.know(self.recorded_at, self.retracted_at)

    def implies(self, other: Closing) -> bool:
        """Whether this is known at all clocks at which `other` is, and is no later."""
        return (
            self.at <= other.at
            and self.recorded_at <= other.recorded_at
            and (
                self.retracted_at is None
                or (other.retracted_at is not None and other.retracted_at <= self.retracted_at)
            )
        )


def earliest(*instants: datetime | None) -> datetime | None:
    """The earliest instant; None (open) if all are None."""
    return min((instant for instant in instants if instant is not None), default=None)


def final_end(valid_to: datetime | None, closings: Iterable[Closing]) -> datetime | None:
    """The end of a fact's validity that the projections store; None is open.

    Closings by retracted facts do not count. So this is the end for questions without
    `known_at`.
    """
    lasting = (closing.at for closing in closings if closing.retracted_at is None)
    return earliest(valid_to, *lasting)


def held_until(
    valid_to: datetime | None, closings: Iterable[Closing], clocks: Clocks
) -> datetime | None:
    """When a fact stopped being true, by what was known then; None if it still held."""
    known = (closing.at for closing in closings if closing.known_by(clocks))
    return earliest(valid_to, *known)


def without_implied(closings: Iterable[Closing]) -> tuple[Closing, ...]:
    """Drops closings that another one implies; the rest in order of time.

    Of several equal ones, the one with the smallest id is kept.
    """
    kept: list[Closing] = []
    for closing in sorted(set(closings), key=lambda closing: closing.by):
        if not any(other.implies(closing) for other in kept):
            kept = [other for other in kept if not closing.implies(other)] + [closing]
    return tuple(sorted(kept, key=lambda closing: (closing.at, closing.recorded_at, closing.by)))
