"""The calls that the store makes, for both clients of Trivium.

The store is written once, as coroutines. With the blocking client they never wait for anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

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

T = TypeVar("T")


class Blocking:
    """The blocking client in the form of the other one; its coroutines never wait."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get_segments(self, ids: Sequence[str]) -> SegmentsFound:
        """As in `Client`."""
        return self._client.get_segments(ids)

    async def list_segments(self, *, filter: Filter) -> AsyncIterator[Segment]:
        """As in `Client`."""
        for segment in self._client.list_segments(filter=filter):
            yield segment

    async def retrieve(self, query: str, **options: Any) -> Retrieval:
        """As in `Client`."""
        return self._client.retrieve(query, **options)

    async def ingest(self, items: Iterable[Item]) -> IngestResult:
        """As in `Client`."""
        return self._client.ingest(items)

    async def forget(self, *, segment_ids: Sequence[str]) -> ForgetResult:
        """As in `Client`."""
        return self._client.forget(segment_ids=segment_ids)


Memory = AsyncClient | Blocking


def completed(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits, outside of an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking client waited in an event loop")
