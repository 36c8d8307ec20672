"""The access count of each item, and its last access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.query import Scope


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
