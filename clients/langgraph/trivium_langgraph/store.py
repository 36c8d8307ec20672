"""A `BaseStore` whose items are segments of Trivium."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from trivium import AsyncClient, Client, Segment
from trivium_langgraph import items
from trivium_langgraph.matching import fits, matches
from trivium_langgraph.memory import Blocking, Memory, completed

T = TypeVar("T")

MAX_HITS = 100
"""The most that Trivium returns for a query."""
MAX_ITEMS = 1000
"""The most items of one call that writes, reads by id or erases."""


class TriviumStore(BaseStore):
    """Long-term memory of a graph, for one tenant.

    With a `Client` it works in threads and in event loops, where it waits in a thread. With an
    `AsyncClient` it works in the event loop of that client, and only the methods that begin with
    `a` can be called.

    A search with a query waits until the writes of this store can be found, within the timeout of
    the client.

    Example:
        >>> store = TriviumStore(Client("localhost:9000", tenant="alice"))  # doctest: +SKIP
        ... store.put(("users", "1"), "diet", {"text": "Nora eats no meat."})
        ... store.search(("users",), query="What can I cook for her?")

    Args:
        client: A client of the tenant; whoever opened it closes it.
        profile: The ranking profile of searches; empty means "default".
    """

    __slots__ = ("_client", "_profile", "_token")

    def __init__(self, client: Client | AsyncClient, *, profile: str = "") -> None:
        self._client = client
        self._profile = profile
        self._token = ""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Runs the operations: reads see the state before the writes of the same batch.

        Raises:
            TriviumError: The service did not answer; some of the writes may have been stored.
            ValueError: An item cannot be stored, such as one of more than 32 KiB.
            NotImplementedError: `index` names fields.
            TypeError: The client is an `AsyncClient`.
        """
        if isinstance(self._client, AsyncClient):
            raise TypeError(
                "this store has an AsyncClient: call aget, asearch, aput, adelete and "
                "alist_namespaces, or open it with a Client"
            )
        return completed(self._run(Blocking(self._client), list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`."""
        if isinstance(self._client, AsyncClient):
            return await self._run(self._client, list(ops))
        return await asyncio.to_thread(self.batch, list(ops))

    async def _run(self, memory: Memory, ops: Sequence[Op]) -> list[Result]:
        puts = {items.id_of(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        segments = [items.to_segment(op) for op in puts.values() if op.value is not None]
        erased = [id_ for id_, op in puts.items() if op.value is None]
        found = await self._get(memory, [op for op in ops if isinstance(op, GetOp)])
        results = [await self._read(memory, op, found) for op in ops]
        await self._put(memory, segments)
        await self._delete(memory, erased)
        return results

    async def _read(self, memory: Memory, op: Op, found: dict[str, Item]) -> Result:
        match op:
            case GetOp():
                return found.get(items.id_of(op.namespace, op.key))
            case SearchOp(query=None | ""):
                return await self._list(memory, op)
            case SearchOp():
                return await self._search(memory, op)
            case ListNamespacesOp():
                return await self._list_namespaces(memory, op)
            case PutOp():
                return None
            case _:
                raise ValueError(f"unknown operation: {type(op)}")

    async def _get(self, memory: Memory, ops: Sequence[GetOp]) -> dict[str, Item]:
        found: dict[str, Item] = {}
        ids = {items.id_of(op.namespace, op.key) for op in ops}
        for some in _batched(sorted(ids)):
            segments = (await memory.get_segments(some)).segments
            found |= {segment.id: items.to_item(segment) for segment in segments}
        return found

    async def _list(self, memory: Memory, op: SearchOp) -> list[SearchItem]:
        """The matching items in the order of their ids, read no further than necessary."""
        end = op.offset + op.limit
        matching: list[SearchItem] = []
        async for segment in memory.list_segments(filter=items.below(op.namespace_prefix)):
            if len(matching) >= end:
                break
            item = items.to_search_item(segment)
            if fits(item.value, op.filter):
                matching.append(item)
        return matching[op.offset : end]

    async def _search(self, memory: Memory, op: SearchOp) -> list[SearchItem]:
        """The items that Trivium finds, best first."""
        found = await memory.retrieve(
            op.query or "",
            limit=MAX_HITS if op.filter else min(op.offset + op.limit, MAX_HITS),
            profile=self._profile,
            filter=items.below(op.namespace_prefix, indexed=True),
            consistency_token=self._token,
            # Items that differ in one word are still two items.
            profile_overrides={"fold_repeats": False},
        )
        ranked = [items.to_search_item(hit.item, hit.score) for hit in found.hits]
        matching = [item for item in ranked if fits(item.value, op.filter)]
        return matching[op.offset : op.offset + op.limit]

    async def _list_namespaces(self, memory: Memory, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = set()
        async for segment in memory.list_segments(filter=items.below(())):
            namespace = items.namespace_of(segment)
            if all(matches(condition, namespace) for condition in op.match_conditions or ()):
                found.add(namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    async def _put(self, memory: Memory, segments: Sequence[Segment]) -> None:
        for some in _batched(segments):
            result = await memory.ingest(some)
            self._token = result.consistency_token or self._token
            for outcome in result.rejected:
                segment = some[outcome.index]
                reasons = "; ".join(f"{field}: {text}" for field, text in outcome.violations)
                place = f"{items.key_of(segment)!r} in {items.namespace_of(segment)}"
                raise ValueError(f"the item {place} was not stored: {reasons}")

    async def _delete(self, memory: Memory, ids: Sequence[str]) -> None:
        for some in _batched(ids):
            result = await memory.forget(segment_ids=some)
            self._token = result.consistency_token or self._token


def _batched(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), MAX_ITEMS):
        yield values[start : start + MAX_ITEMS]
