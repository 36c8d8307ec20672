"""Erasure, and the verification of every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemId, TenantName, segment_id
from serving.pipeline.index.vector_spaces import VectorSpace, VectorSpaces
from serving.pipeline.writes.forget import Eraser, StoreReceipt
from serving.ports.memory_store import EraseReceipt, Selector
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import FixedConsistency, FixedIndex
from tests.fakes.store import InMemoryStore
from tests.support.builders import TENANT, segment

ONE = Selector(items=(segment_id("a"),))


class RemainingIndex(FixedIndex):
    """An index from which nothing goes.

    Attributes:
        counted: The items that were asked for.
    """

    def __init__(self, *, ready: bool = True) -> None:
        super().__init__(ready=ready)
        self.counted: list[ItemId] = []

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        self.counted += items
        return len(items)

    async def outdated_snapshots(self, write: ConsistencyToken, deadline: Deadline) -> int:
        return 3


class CountingStore(InMemoryStore):
    """A store with derived rows, one of which stays."""

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        erased = await super().erase(tenant, selector)
        return EraseReceipt(erased.items, erased.token, [7], {"embeddings": 2, "dead_letters": 1})

    async def count_derived(self, keys: Sequence[int]) -> Mapping[str, int]:
        self._check_available()
        return {"embeddings": 0, "dead_letters": len(keys)}


async def forgotten(
    store: InMemoryStore, index: FixedIndex, selector: Selector = ONE
) -> dict[str, StoreReceipt]:
    spaces = VectorSpaces(VectorSpace.of(FakeEmbedder(), index))
    eraser = Eraser(store, spaces, InMemoryGraph(), FixedConsistency())
    result = await eraser.forget(TENANT, selector, Deadline.after(5))
    return {receipt.store: receipt for receipt in result.receipts}


@pytest.fixture
async def store() -> InMemoryStore:
    store = CountingStore()
    await store.write(TENANT, [segment("a"), segment("b")])
    return store


async def test_the_receipt_says_of_each_store_what_went_and_what_is_left(
    store: InMemoryStore,
) -> None:
    receipts = await forgotten(store, RemainingIndex())

    assert list(receipts.values()) == [
        StoreReceipt("postgres", verified=True, removed=1),
        StoreReceipt("embeddings", verified=True, removed=2),
        StoreReceipt("dead_letters", verified=True, removed=1, remaining=1),
        StoreReceipt("vector_index", verified=True, remaining=1),
        StoreReceipt("index_snapshots", verified=True, remaining=3),
        StoreReceipt("graph", verified=True),
    ]


async def test_an_index_that_did_not_follow_verifies_no_snapshots(store: InMemoryStore) -> None:
    receipts = await forgotten(store, RemainingIndex(ready=False))

    for name in ("vector_index", "index_snapshots"):
        assert not receipts[name].verified
        assert receipts[name].reason == "it has not caught up yet"


async def test_an_erasure_that_is_repeated_after_a_kill_verifies_the_named_items(
    store: InMemoryStore,
) -> None:
    await store.erase(TENANT, ONE)  # and the process was killed
    index = RemainingIndex()

    receipts = await forgotten(store, index)

    assert index.counted == [segment_id("a")]
    assert receipts["index_snapshots"].remaining == 3


async def test_no_snapshot_is_asked_for_before_the_first_erasure() -> None:
    receipts = await forgotten(CountingStore(), RemainingIndex(), Selector(everything=True))

    assert receipts["index_snapshots"] == StoreReceipt("index_snapshots", verified=True)


async def test_a_store_that_is_lost_after_the_erasure_is_not_verified() -> None:
    class LostStore(CountingStore):
        async def count_derived(self, keys: Sequence[int]) -> Mapping[str, int]:
            raise DependencyError("postgres", "it is away")

    store = LostStore()
    await store.write(TENANT, [segment("a")])

    receipts = await forgotten(store, FixedIndex())

    assert not receipts["embeddings"].verified
    assert "it is away" in receipts["embeddings"].reason
    assert receipts["vector_index"].verified
