"""Erasure, and the verification of every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemId, TenantName, segment_id
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.writes.forget import Eraser, Lookup, LookupKey, StoreReceipt
from serving.ports.embedding import VectorLike
from serving.ports.memory_store import EraseReceipt, Selector
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder, unit
from tests.fakes.pipeline import FixedConsistency, FixedIndex
from tests.fakes.store import InMemoryStore
from tests.fakes.words import InMemoryWords
from tests.support.builders import TENANT, batch_of, segment

ONE = Selector(items=(segment_id("a"),))


class RemainingIndex(FixedIndex):
    """An index from which the item does not go."""

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return items.count(segment_id("a"))


class CountingStore(InMemoryStore):
    """A store with derived rows, one of which stays."""

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        erased = await super().erase(tenant, selector)
        removed = {"embeddings": 2, "dead_letters": 1}
        return replace(erased, keys=[7], removed=removed)

    async def count_derived(self, keys: Sequence[int]) -> Mapping[str, int]:
        self._check_available()
        return {"embeddings": 0, "dead_letters": len(keys)}


def by_id(asked: int, found: int = 0) -> Lookup:
    return Lookup(LookupKey.ID, asked, found)


async def forgotten(
    store: InMemoryStore, index: FixedIndex, selector: Selector = ONE
) -> dict[str, StoreReceipt]:
    space = VectorSpace.of(FakeEmbedder(), index)
    words, graph = InMemoryWords(store), InMemoryGraph()
    eraser = Eraser(store, words, space, graph, FixedConsistency())
    result = await eraser.forget(TENANT, selector, Deadline.after(5))
    return {receipt.store: receipt for receipt in result.receipts}


async def holding_a(store: InMemoryStore, **fields: Any) -> InMemoryStore:
    await store.write(batch_of(segment("a", **fields)))
    return store


@pytest.fixture
async def store() -> InMemoryStore:
    return await holding_a(CountingStore())


async def test_receipt_counts_removed_and_remaining_by_store(store: InMemoryStore) -> None:
    receipts = await forgotten(store, RemainingIndex())

    assert list(receipts.values()) == [
        StoreReceipt.of("postgres", [by_id(1), Lookup(LookupKey.TEXT, 1, 0)], removed=1),
        StoreReceipt.of("embeddings", [by_id(1)], removed=2),
        StoreReceipt.of("dead_letters", [by_id(1, found=1)], removed=1),
        StoreReceipt.of("names", [by_id(0)]),
        StoreReceipt.of("vector_index", [by_id(1, found=1)]),
        StoreReceipt.of("graph", [by_id(1)]),
    ]
    assert [each.remaining for each in receipts.values()] == [0, 0, 1, 0, 1, 0]


async def test_item_found_only_by_search_counts_as_remaining() -> None:
    class BlindStore(CountingStore):
        """The row stays, and no id finds it."""

        async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
            erased = await super().erase(tenant, selector)
            await self.write(batch_of(segment("a")))
            return erased

        async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
            return 0

    receipts = await forgotten(await holding_a(BlindStore()), FixedIndex())

    assert receipts["postgres"].lookups == (by_id(1), Lookup(LookupKey.TEXT, 1, 1))
    assert receipts["postgres"].remaining == 1


async def test_vector_is_searched_in_its_models_index() -> None:
    class EmbeddedStore(CountingStore):
        async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
            erased = await super().erase(tenant, selector)
            models = [{FAKE_MODEL.fingerprint: unit(1)}, {"another": unit(2)}]
            pairs = zip(erased.sample, models, strict=True)
            return replace(erased, sample=[replace(one, vectors=two) for one, two in pairs])

    class QueriedIndex(FixedIndex):
        async def search(
            self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
        ) -> IndexAnswer:
            assert np.array_equal(vector, unit(1))
            return IndexAnswer([Candidate(segment_id("a"), 1.0)], epoch=1)

    store = await holding_a(EmbeddedStore())
    await store.write(batch_of(segment("b")))

    receipts = await forgotten(store, QueriedIndex(), Selector(everything=True))

    assert receipts["vector_index"].lookups == (by_id(2), Lookup(LookupKey.VECTOR, 1, 1))


async def test_a_name_that_stays_in_the_cache_remains() -> None:
    class CachingStore(CountingStore):
        async def known_names(self, tenant: TenantName) -> Mapping[str, str]:
            return {**await super().known_names(tenant), "goa": "Goa"}

        async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
            return replace(await super().erase(tenant, selector), names=["goa", "rome"])

    store = await holding_a(CachingStore(), entities=("Goa", "Rome"))
    receipts = await forgotten(store, FixedIndex())

    assert receipts["names"] == StoreReceipt.of("names", [by_id(2, found=1)], removed=2)


async def test_an_index_behind_the_log_is_not_verified(store: InMemoryStore) -> None:
    receipts = await forgotten(store, RemainingIndex(ready=False))

    assert not receipts["vector_index"].verified
    assert receipts["vector_index"].reason == "the store has not applied the erasure yet"


async def test_repeated_erasure_is_verified_by_id_alone(store: InMemoryStore) -> None:
    """The texts and vectors went with the first one."""
    await store.erase(TENANT, ONE)  # and the process was killed

    receipts = await forgotten(store, RemainingIndex())

    assert receipts["vector_index"].lookups == (by_id(1, found=1),)
    for name in ("postgres", "graph"):
        assert receipts[name].lookups == (by_id(1),)


async def test_store_lost_after_the_erasure_is_unverified() -> None:
    class LostStore(CountingStore):
        async def count_derived(self, keys: Sequence[int]) -> Mapping[str, int]:
            raise DependencyError("postgres", "it is away")

    receipts = await forgotten(await holding_a(LostStore()), FixedIndex())

    assert not receipts["embeddings"].verified
    assert "it is away" in receipts["embeddings"].reason
    assert receipts["vector_index"].verified
