"""The keys of callers, and the times of segments and of accesses to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from serving.domain.budget import Deadline
from serving.domain.identity import AccessKey
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.period import Period
from serving.domain.questions.query import Scope
from serving.domain.ranking.ranked_list import Candidate


class AccessKeys(Protocol):
    """Stores keys; only their hashes."""

    async def add(self, key: AccessKey) -> None:
        """Stores a new key."""

    async def revoke(self, key_id: str) -> bool:
        """Revokes a key; False if there is none with this id. Idempotent."""

    async def all(self) -> list[AccessKey]:
        """Returns all keys, also expired and revoked ones, in the order of their creation."""


class AccessLog(Protocol):
    """Counts which items were shown, off the read path."""

    def record(self, tenant: TenantName, items: Iterable[ItemId]) -> None:
        """Counts one access of each item; returns at once."""

    async def shown_counts(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> Mapping[ItemId, int]:
        """Returns how often each item was shown, as of about a second ago; zeros may be omitted."""

    async def recently_accessed(self, scope: Scope, limit: int, deadline: Deadline) -> list[ItemId]:
        """Returns the segments of the scope that were shown last, latest first; no sensitive ones.

        A segment that was never shown, or is newer than that, counts by its event time.
        """


class Timeline(Protocol):
    """Finds items by their times and their importance alone; no sensitive ones."""

    async def latest(
        self, scope: Scope, depth: int, deadline: Deadline, *, earliest_first: bool = False
    ) -> list[Candidate]:
        """Returns the latest segments of the scope, or the earliest, best first.

        The score is the event time in seconds since 1970, negated for the earliest.
        """

    async def mentioning(
        self, period: Period, scope: Scope, depth: int, deadline: Deadline
    ) -> list[Candidate]:
        """Returns the latest segments of the scope whose text speaks of a part of the period.

        What speaks of a time much longer than the period is not about it. The score is the event
        time in seconds since 1970.
        """

    async def important(
        self, scope: Scope, least: float, depth: int, deadline: Deadline
    ) -> list[Candidate]:
        """Returns the segments of at least this importance, by importance, then the latest first.

        Scored by importance.
        """

    async def holding(self, scope: Scope, depth: int, deadline: Deadline) -> list[Candidate]:
        """Returns the facts that hold by the clocks of the scope, the last to begin first.

        Scored by `Fact.begins` in seconds. The filter holds for them as in a vector index.
        """
