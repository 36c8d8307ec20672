"""Erasing, and the receipt: every store is asked again for what was erased."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import TriviumError
from serving.domain.records import ItemKind, TenantName
from serving.pipeline.spaces import VectorSpaces
from serving.ports import Consistency, EraseReceipt, Graph, MemoryStore, Selector


@dataclass(frozen=True, slots=True)
class StoreReceipt:
    """What one store said when it was asked again."""

    store: str
    verified: bool
    remaining: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was erased, and each store's word for it."""

    segments: int
    facts: int
    receipts: list[StoreReceipt]
    token: ConsistencyToken


class Eraser:
    """Erases from the truth and watches the projections follow."""

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
            receipts=await self._ask_again(tenant, erased, deadline),
            token=erased.token,
        )

    async def _ask_again(
        self, tenant: TenantName, erased: EraseReceipt, deadline: Deadline
    ) -> list[StoreReceipt]:
        token, items = erased.token, erased.items

        async def at_once() -> bool:
            return True

        indexes = [space.index for space in self._spaces.all()]

        async def indexes_have_seen() -> bool:
            return all([await index.caught_up(token, deadline) for index in indexes])

        async def count_in_indexes() -> int:
            return sum([await index.count(tenant, items) for index in indexes])

        return [
            await _receipt("postgres", at_once, lambda: self._store.count(tenant, items)),
            await _receipt("vector_index", indexes_have_seen, count_in_indexes),
            await _receipt(
                "graph",
                lambda: self._consistency.graph_has_seen(token, deadline),
                lambda: self._graph.count(tenant, items),
            ),
        ]


async def _receipt(
    store: str, caught_up: Callable[[], Awaitable[bool]], count: Callable[[], Awaitable[int]]
) -> StoreReceipt:
    try:
        if not await caught_up():
            return StoreReceipt(store, verified=False, reason="it has not caught up yet")
        return StoreReceipt(store, verified=True, remaining=await count())
    except (TriviumError, TimeoutError) as error:
        return StoreReceipt(store, verified=False, reason=str(error) or "it did not answer in time")
