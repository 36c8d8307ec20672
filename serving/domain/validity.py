"""What is held to be true when: the two clocks of a question, and what ends the truth of a fact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class Clocks(NamedTuple):
    """When something is to have been true, and what had been recorded of it by when.

    Without `known_at` everything recorded counts, but for what is retracted by `as_of`.
    """

    as_of: datetime
    known_at: datetime | None = None

    def know(self, recorded_at: datetime, retracted_at: datetime | None) -> bool:
        """Whether something was recorded and not retracted yet."""
        recorded = self.known_at is None or recorded_at <= self.known_at
        return recorded and (retracted_at is None or (self.known_at or self.as_of) < retracted_at)


@dataclass(frozen=True, slots=True)
class Closing:
    """What ended the truth of a fact: from `at` on the fact `by` took its place.

    `recorded_at` and `retracted_at` are those of the fact `by`: what it ended counts
    for whoever knows of it.
    """

    by: str
    at: datetime
    recorded_at: datetime
    retracted_at: datetime | None = None

    def known_by(self, clocks: Clocks) -> bool:
        """Whether it counts by these clocks."""
        return clocks.know(self.recorded_at, self.retracted_at)

    def implies(self, other: Closing) -> bool:
        """Whether whoever knows of `other` knows of this, which ended the truth no later."""
        return (
            self.at <= other.at
            and self.recorded_at <= other.recorded_at
            and (
                self.retracted_at is None
                or (other.retracted_at is not None and other.retracted_at <= self.retracted_at)
            )
        )


def earliest(*instants: datetime | None) -> datetime | None:
    """The earliest of those given; None, which is open, if none is."""
    return min((instant for instant in instants if instant is not None), default=None)


def final_end(valid_to: datetime | None, closings: Iterable[Closing]) -> datetime | None:
    """The end of a fact's truth as it is known for good, for the projections to keep; None is open.

    What a fact ended that was retracted, or is to be, does not count. So this is the end for
    whoever asks without a `known_at`, unless as of a time before such a retraction.
    """
    lasting = (closing.at for closing in closings if closing.retracted_at is None)
    return earliest(valid_to, *lasting)


def held_until(
    valid_to: datetime | None, closings: Iterable[Closing], clocks: Clocks
) -> datetime | None:
    """When the truth of a fact ended, as far as was known; None if it had not."""
    known = (closing.at for closing in closings if closing.known_by(clocks))
    return earliest(valid_to, *known)


def without_implied(closings: Iterable[Closing]) -> tuple[Closing, ...]:
    """Those that can tell when a truth ended, by whatever clocks; in order of time.

    Of several that say the same the one with the smallest id stays.
    """
    kept: list[Closing] = []
    for closing in sorted(set(closings), key=lambda closing: closing.by):
        if not any(other.implies(closing) for other in kept):
            kept = [other for other in kept if not closing.implies(other)] + [closing]
    return tuple(sorted(kept, key=lambda closing: (closing.at, closing.recorded_at, closing.by)))
