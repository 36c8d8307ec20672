"""Hand-written stand-ins for the ports of the pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.period import Period
from serving.domain.items.records import ItemId, TenantName, segment_id
from serving.domain.questions.named_times import NamedTimes
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.ports.change_log import Projection
from serving.ports.embedding import VectorLike
from serving.ports.vector_index import AdjacencyAnswer, IndexAnswer, IndexStatus, WantedNeighbours


class FixedLeg(Leg):
    """A leg that always finds the same items, in this order.

    A text names segments: "a b=c" finds a before b and c, which have the same score.
    """

    def __init__(self, found: str | Sequence[ItemId] = "", *, stale: bool = False) -> None:
        groups = (
            [[segment_id(name) for name in tied.split("=")] for tied in found.split()]
            if isinstance(found, str)
            else [[item] for item in found]
        )
        candidates = [
            Candidate(item, 1.0 / place) for place, group in enumerate(groups, 1) for item in group
        ]
        self._answer = LegAnswer(candidates, stale=stale)
        self.requests: list[LegRequest] = []

    async def find(self, request: LegRequest) -> LegAnswer:
        self.requests.append(request)
        return self._answer


class FixedIndex:
    """A vector index that finds nothing, and is as ready as given; it keeps what was wanted."""

    def __init__(self, *, ready: bool = True) -> None:
        self.ready = ready
        self.wanted: list[WantedNeighbours] = []
        self.adjacent_for: list[Query] = []

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        self.wanted.append(wanted)
        return IndexAnswer([], epoch=1)

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> IndexAnswer:
        return IndexAnswer([], epoch=1)

    async def adjacent(
        self, query: Query, items: Sequence[ItemId], deadline: Deadline
    ) -> AdjacencyAnswer:
        self.adjacent_for.append(query)
        return AdjacencyAnswer({})

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return 0

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        return self.ready

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        return IndexStatus(self.ready, 0, 1)


class BrokenLeg(Leg):
    """A leg that always raises."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def find(self, request: LegRequest) -> LegAnswer:
        raise self._error


class HangingLeg(Leg):
    """A leg that answers when it is cancelled, and never before."""

    def __init__(self) -> None:
        self.cancelled = False

    async def find(self, request: LegRequest) -> LegAnswer:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError("nobody sets this event")


class FixedDates:
    """Reads the same periods in every text, and remembers the questions."""

    def __init__(self, *periods: Period, alone: bool = False, earliest_first: bool = False) -> None:
        self._times = NamedTimes(periods, alone, earliest_first)
        self.asked: list[tuple[str, datetime]] = []

    def times(self, question: str, as_of: datetime) -> NamedTimes:
        self.asked.append((question, as_of))
        return self._times


class RecordingAccess:
    """An access log that records calls, and returns given values."""

    def __init__(
        self, *, shown: Mapping[ItemId, int] | None = None, recent: Sequence[ItemId] = ()
    ) -> None:
        self.by_tenant: dict[TenantName, list[ItemId]] = {}
        self._shown = shown or {}
        self._recent = recent

    @property
    def recorded(self) -> list[ItemId]:
        """What was shown of all tenants."""
        return list(chain.from_iterable(self.by_tenant.values()))

    def record(self, tenant: TenantName, items: Iterable[ItemId]) -> None:
        self.by_tenant.setdefault(tenant, []).extend(items)

    async def shown_counts(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> Mapping[ItemId, int]:
        return {item: count for item, count in self._shown.items() if item in items}

    async def recently_accessed(self, scope: Scope, limit: int, deadline: Deadline) -> list[ItemId]:
        return list(self._recent[:limit])


class FixedReranker:
    """A reranker that gives each text the logit it was told; a text is known by its end."""

    def __init__(self, logits: Mapping[str, float]) -> None:
        self._logits = logits
        self.asked: list[str] = []

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        self.asked += texts
        return [
            next(logit for end, logit in self._logits.items() if text.endswith(end))
            for text in texts
        ]


class BrokenReranker:
    """A reranker that always raises."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        raise self._error


class HangingReranker:
    """A reranker that never answers."""

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets this event")


class FixedConsistency:
    """Returns given states of the projections."""

    def __init__(
        self,
        *,
        dead_letters: Mapping[Projection, int] | None = None,
        pending: Mapping[Projection, int] | None = None,
    ) -> None:
        self._pending = pending or {}
        self._dead_letters = dead_letters or {}

    async def graph_has_seen(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        return True

    async def dead_letter_counts(self, token: ConsistencyToken) -> Mapping[Projection, int]:
        return self._dead_letters

    async def pending_counts(
        self, tenant: TenantName, deadline: Deadline
    ) -> Mapping[Projection, int]:
        return self._pending


class FixedNames:
    """Knows what these words are meant as; keeps what it was asked."""

    def __init__(self, error: BaseException | None = None, **meant: str) -> None:
        self._error = error
        self._meant = meant
        self.asked: list[Sequence[str]] = []

    async def meant(
        self, tenant: TenantName, words: Sequence[str], deadline: Deadline
    ) -> dict[str, str]:
        self.asked.append(words)
        if self._error is not None:
            raise self._error
        return self._meant
