"""Hand-written stand-ins for what the pipeline asks and tells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.query import Scope
from serving.domain.ranking import Candidate
from serving.domain.records import ItemId, ItemKind, TenantName, segment_id
from serving.pipeline.legs import Finding, LegRequest
from serving.ports import IndexAnswer, IndexStatus, Projection, Vector


class FixedLeg:
    """A leg that always finds the same items, in this order; text names segments."""

    def __init__(self, found: str | Sequence[ItemId] = "", *, stale: bool = False) -> None:
        items = [segment_id(name) for name in found.split()] if isinstance(found, str) else found
        self._finding = Finding(
            [Candidate(item, 1.0 / place) for place, item in enumerate(items, 1)], stale=stale
        )
        self.requests: list[LegRequest] = []

    async def find(self, request: LegRequest) -> Finding:
        self.requests.append(request)
        return self._finding


class FixedIndex:
    """A vector index that finds nothing, and is as ready as it is told."""

    def __init__(self, *, ready: bool = True, incomplete: bool = False) -> None:
        self.ready = ready
        self.incomplete = incomplete

    async def search(
        self,
        vector: Vector,
        kind: ItemKind,
        scope: Scope,
        depth: int,
        deadline: Deadline,
        token: ConsistencyToken | None = None,
    ) -> IndexAnswer:
        return IndexAnswer([], epoch=1)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return 0

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        return self.ready

    async def status(self) -> IndexStatus:
        return IndexStatus(self.ready, 0, 1, incomplete=self.incomplete)


class BrokenLeg:
    """A leg that always raises."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def find(self, request: LegRequest) -> Finding:
        raise self._error


class HangingLeg:
    """A leg that answers when it is cancelled, and never before."""

    def __init__(self) -> None:
        self.cancelled = False

    async def find(self, request: LegRequest) -> Finding:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError("nobody sets this event")


class RecordingAccess:
    """An access counter that keeps what it is told."""

    def __init__(self) -> None:
        self.recorded: list[ItemId] = []

    def record(self, tenant: TenantName, items: Iterable[ItemId]) -> None:
        self.recorded += items


class FixedConsistency:
    """Says what it is told about the projections."""

    def __init__(
        self, *, seen: bool = True, set_aside: Mapping[Projection, int] | None = None
    ) -> None:
        self._seen = seen
        self._set_aside = set_aside or {}

    async def graph_has_seen(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        return self._seen

    async def set_aside_counts(self, token: ConsistencyToken) -> Mapping[Projection, int]:
        return self._set_aside

    async def epoch(self) -> str:
        return "epoch"
