"""Clients of Trivium over a dictionary, as far as the store of LangGraph calls them."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.retrievals import retrieval
from trivium import (
    AsyncClient,
    Client,
    Filter,
    ForgetResult,
    IngestResult,
    Item,
    Retrieval,
    Segment,
    SegmentsFound,
)

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClient(Client):
    """Finds segments that share a word with the query; keeps the options of retrievals."""

    def __init__(self) -> None:
        self.segments: dict[str, Segment] = {}
        self.retrievals: list[dict[str, Any]] = []
        self.writes = 0

    def ingest(self, items: Iterable[Item], **options: Any) -> IngestResult:
        self.writes += 1
        now = EPOCH + timedelta(seconds=self.writes)
        for item in items:
            assert isinstance(item, Segment)
            before = self.segments.get(item.id)
            created_at = now if before is None else before.created_at
            self.segments[item.id] = dataclasses.replace(
                item, created_at=created_at, updated_at=now
            )
        return IngestResult(outcomes=(), consistency_token=f"write {self.writes}")

    def forget(self, **options: Any) -> ForgetResult:
        self.writes += 1
        for id_ in options["segment_ids"]:
            self.segments.pop(id_, None)
        return ForgetResult(
            segment_count=0,
            fact_count=0,
            receipts=(),
            consistency_token=f"write {self.writes}",
        )

    def get_segments(self, ids: Sequence[str], **options: Any) -> SegmentsFound:
        found = tuple(self.segments[id_] for id_ in ids if id_ in self.segments)
        return SegmentsFound(found, tuple(id_ for id_ in ids if id_ not in self.segments))

    def list_segments(self, *, filter: Filter | None = None, **options: Any) -> Iterator[Segment]:
        assert filter is not None
        for _, segment in sorted(self.segments.items()):
            if passes(filter, segment):
                yield segment

    def retrieve(self, query: str, **options: Any) -> Retrieval:
        self.retrievals.append({"query": query, **options})
        words = set(query.lower().split())
        found = [
            segment
            for segment in self.list_segments(filter=options["filter"])
            if words & set(segment.text.lower().replace('"', " ").split())
        ]
        return retrieval(*found[: options["limit"]])


def passes(filter: Filter, segment: Segment) -> bool:
    return segment.kind in filter.kinds and all(
        isinstance(values, Sequence) and segment.labels.get(label) in values
        for label, values in filter.labels.items()
    )


class FakeAsyncClient(AsyncClient):
    def __init__(self) -> None:
        self.blocking = FakeClient()

    async def ingest(self, items: Iterable[Item], **options: Any) -> IngestResult:
        return self.blocking.ingest(items)

    async def forget(self, **options: Any) -> ForgetResult:
        return self.blocking.forget(**options)

    async def get_segments(self, ids: Sequence[str], **options: Any) -> SegmentsFound:
        return self.blocking.get_segments(ids)

    async def list_segments(self, **options: Any) -> AsyncIterator[Segment]:
        for segment in self.blocking.list_segments(**options):
            yield segment

    async def retrieve(self, query: str, **options: Any) -> Retrieval:
        return self.blocking.retrieve(query, **options)
