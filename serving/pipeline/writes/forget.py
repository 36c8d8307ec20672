"""Erases items, and verifies in every store that they are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import TriviumError
from serving.domain.items.records import ItemKind, TenantName
from serving.pipeline.index.vector_spaces import VectorSpaces
from serving.ports.change_log import Consistency
from serving.ports.graph import Graph
from serving.ports.memory_store import EraseReceipt, MemoryStore, Selector


@dataclass(frozen=True, slots=True)
class StoreReceipt:
    """What one store removed, and its verification.

    `removed` is 0 for a store that does not count.
    """

    store: str
    verified: bool
    remaining: int = 0
    reason: str = ""
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was erased, and the verification of each store."""

    segments: int
    facts: int
    receipts: list[StoreReceipt]
    token: ConsistencyToken


class Eraser:
    """Erases from PostgreSQL, and waits for the projections to follow."""

    def __init__(
        self, store: MemoryStore, spaces: VectorSpaces, graph: Graph, consistency: Consistency
    ) -> None:
        self._store = store
        self._spaces = spaces
        self._graph = graph
        self._consistency = consistency

    async def forget(self, tenant: TenantName, selector: Selector, deadline: Deadline) -> Forgotten:
        """Erases what is selected; a store that does not follow in time is not verified.

        Raises:
            StoreUnavailableError: Nothing was erased.
        """
        erased = await self._store.erase(tenant, selector)
        return Forgotten(
            segments=sum(item.kind is ItemKind.SEGMENT for item in erased.items),
            facts=sum(item.kind is ItemKind.FACT for item in erased.items),
            receipts=await self._verify(tenant, selector, erased, deadline),
            token=erased.token,
        )

    async def _verify(
        self, tenant: TenantName, selector: Selector, erased: EraseReceipt, deadline: Deadline
    ) -> list[StoreReceipt]:
        token = erased.token
        # The named ones too: a call that was cut off erased them, and this one repeats it.
        items = list(dict.fromkeys([*erased.items, *(selector.items or ())]))

        async def at_once() -> bool:
            return True

        indexes = [space.index for space in self._spaces.all()]

        async def indexes_have_seen() -> bool:
            return all([await index.caught_up(token, deadline) for index in indexes])

        async def count_in_indexes() -> int:
            return sum([await index.count(tenant, items) for index in indexes])

        async def outdated_snapshots() -> int:
            if not token.xids:  # nothing was ever erased
                return 0
            return sum([await index.outdated_snapshots(token, deadline) for index in indexes])

        rows = await _receipt("postgres", at_once, lambda: self._store.count(tenant, items))
        return [
            replace(rows, removed=len(erased.items)),
            *await self._verify_derived(erased),
            await _receipt("vector_index", indexes_have_seen, count_in_indexes),
            await _receipt("index_snapshots", indexes_have_seen, outdated_snapshots),
            await _receipt(
                "graph",
                lambda: self._consistency.graph_has_seen(token, deadline),
                lambda: self._graph.count(tenant, items),
            ),
        ]

    async def _verify_derived(self, erased: EraseReceipt) -> list[StoreReceipt]:
        try:
            remaining = await self._store.count_derived(erased.keys)
        except (TriviumError, TimeoutError) as error:
            return [_unverified(store, error) for store in erased.removed]
        return [
            StoreReceipt(
                store, verified=True, remaining=count, removed=erased.removed.get(store, 0)
            )
            for store, count in remaining.items()
        ]


async def _receipt(
    store: str, caught_up: Callable[[], Awaitable[bool]], count: Callable[[], Awaitable[int]]
) -> StoreReceipt:
    try:
        if not await caught_up():
            return StoreReceipt(store, verified=False, reason="it has not caught up yet")
        return StoreReceipt(store, verified=True, remaining=await count())
    except (TriviumError, TimeoutError) as error:
        return _unverified(store, error)


def _unverified(store: str, error: Exception) -> StoreReceipt:
    return StoreReceipt(store, verified=False, reason=str(error) or "it did not answer in time")
