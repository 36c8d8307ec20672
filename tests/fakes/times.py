"""What was shown and said when, in memory: the reference that PostgreSQL is held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from serving.domain.budget import Deadline
from serving.domain.items.period import Period
from serving.domain.items.records import Fact, ItemId, Segment, TenantName
from serving.domain.questions.named_times import longest_about
from serving.domain.questions.query import NO_FILTER, Scope
from serving.domain.questions.visibility import hidden_by
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.ports.memory_store import Catalog

ALL = 1_000_000


async def segments_in(catalog: Catalog, scope: Scope) -> list[Segment]:
    """The segments of a scope, without the sensitive ones."""
    segments = await catalog.list_segments(scope.tenant, scope.segment_filter, "", ALL)
    return [found for found in segments if found.event_time <= scope.as_of and not found.sensitive]


class InMemoryAccessLog:
    """The port `AccessLog`, over the segments of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._times: Counter[tuple[TenantName, ItemId]] = Counter()
        self._last: dict[tuple[TenantName, ItemId], datetime] = {}

    def record(self, tenant: TenantName, items: Iterable[ItemId]) -> None:
        now = datetime.now(UTC)
        for item in items:
            self._times[tenant, item] += 1
            self._last[tenant, item] = now

    async def shown_counts(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> Mapping[ItemId, int]:
        return {item: self._times[tenant, item] for item in items}

    async def recently_accessed(self, scope: Scope, limit: int, deadline: Deadline) -> list[ItemId]:
        def accessed(segment: Segment) -> datetime:
            shown = self._last.get((scope.tenant, segment.item), segment.event_time)
            return max(shown, segment.event_time)

        by_id = sorted(await segments_in(self._catalog, scope), key=lambda found: found.id)
        return [found.item for found in sorted(by_id, key=accessed, reverse=True)][:limit]


class InMemoryTimeline:
    """The port `Timeline`, over the segments of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def latest(
        self, scope: Scope, depth: int, deadline: Deadline, *, earliest_first: bool = False
    ) -> list[Candidate]:
        sign = -1 if earliest_first else 1
        segments = await segments_in(self._catalog, scope)
        return best_first(
            Candidate(found.item, sign * found.event_time.timestamp()) for found in segments
        )[:depth]

    async def mentioning(
        self, period: Period, scope: Scope, depth: int, deadline: Deadline
    ) -> list[Candidate]:
        return best_first(
            Candidate(found.item, found.event_time.timestamp())
            for found in await segments_in(self._catalog, scope)
            if any(
                each.begins < period.ends
                and each.ends > period.begins
                and each.length <= longest_about(period)
                for each in found.mentions
            )
        )[:depth]

    async def important(
        self, scope: Scope, least: float, depth: int, deadline: Deadline
    ) -> list[Candidate]:
        segments = await segments_in(self._catalog, scope)
        ordered = sorted(
            segments, key=lambda each: (-each.importance, -each.event_time.timestamp(), each.id)
        )
        return [
            Candidate(each.item, each.importance) for each in ordered if each.importance >= least
        ][:depth]

    async def holding(
        self, scope: Scope, depth: int, deadline: Deadline, *, entities: Sequence[str] = ()
    ) -> list[Candidate]:
        facts = await self._catalog.list_facts(scope.tenant, entities, None, "", ALL)
        everything = await self._catalog.list_segments(scope.tenant, NO_FILTER, "", ALL)
        segments = {each.id: each for each in everything}

        def evidence(fact: Fact) -> list[Segment]:
            return [segments[id_] for id_ in fact.evidence if id_ in segments]

        return best_first(
            Candidate(fact.item, fact.begins.timestamp())
            for fact in facts
            if not fact.sensitive
            and not any(each.sensitive for each in evidence(fact))
            and not hidden_by(fact, scope, evidence(fact))
        )[:depth]
