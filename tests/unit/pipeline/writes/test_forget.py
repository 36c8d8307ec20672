"""Erasure, and the comparison of the stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemId, Segment, TenantName, segment_id
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.writes.forget import Eraser, Lookup, LookupKey, StoreReceipt
from serving.pipeline.writes.verification import Verifier
from serving.ports.embedding import VectorLike
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import EraseReceipt, Selector
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from serving.ports.verification import Difference, Finding
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder, unit
from tests.fakes.pipeline import FixedConsistency, FixedIndex
from tests.fakes.store import InMemoryStore
from tests.fakes.words import InMemoryWords
from tests.support.builders import OTHER, TENANT, batch_of, segment

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

    behind = "the store has not applied the erasure yet"
    assert receipts["vector_index"] == StoreReceipt("vector_index", verified=False, reason=behind)


async def test_repeated_erasure_is_verified_by_id_alone(store: InMemoryStore) -> None:
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


@dataclass
class FakeTruth:
    """Segments in memory; the graph follows when it is waited for, if `follows`."""

    graph: FakeContents
    stored: dict[ItemId, Segment] = field(default_factory=dict)
    vectors: list[Finding] = field(default_factory=list)
    follows: bool = True
    repaired: list[Finding] = field(default_factory=list)

    async def tenants(self) -> list[TenantName]:
        return [TENANT]

    async def items(self, tenant: TenantName) -> AsyncIterator[list[ItemId]]:
        if tenant == TENANT:
            yield list(self.stored)

    async def rows(self, tenant: TenantName, items: Sequence[ItemId]) -> GraphChanges:
        stored = self.stored if tenant == TENANT else {}
        return GraphChanges(
            segments=[(tenant, stored[item]) for item in items if item in stored],
            removed=[(tenant, item) for item in items if item not in stored],
        )

    async def embedding_findings(self) -> list[Finding]:
        return list(self.vectors)

    async def projected(self, timeout_s: float) -> bool:
        if self.follows:
            self.graph.nodes = {(TENANT, item): row for item, row in self.stored.items()}
        return self.follows

    async def repair(self, findings: Sequence[Finding]) -> None:
        self.repaired += findings
        self.vectors.clear()
        self.follows = True

    async def log_everything(self) -> None:
        self.follows = True


@dataclass
class FakeContents:
    nodes: dict[tuple[TenantName, ItemId], Segment] = field(default_factory=dict)
    entities: list[str] = field(default_factory=list)

    async def tenants(self) -> list[TenantName]:
        return list(dict.fromkeys(tenant for tenant, _ in self.nodes))

    async def items(self, tenant: TenantName) -> AsyncIterator[list[ItemId]]:
        yield [item for of, item in self.nodes if of == tenant]

    async def differing(
        self, tenant: TenantName, rows: GraphChanges
    ) -> Mapping[ItemId, Difference]:
        found = {}
        for _, each in rows.segments:
            node = self.nodes.get((tenant, each.item))
            if node != each:
                found[each.item] = Difference.STALE if node else Difference.MISSING
        left = [item for _, item in rows.removed if (tenant, item) in self.nodes]
        return found | dict.fromkeys(left, Difference.LEFT_OVER)

    async def unsound_entities(self, tenant: TenantName) -> list[str]:
        return self.entities if tenant == TENANT else []

    async def remove_entities(self, tenant: TenantName, keys: Sequence[str]) -> None:
        self.entities = [key for key in self.entities if key not in keys]


A, B = segment_id("a"), segment_id("b")


def differing() -> FakeTruth:
    """`a` is missing, `b` stale, and another tenant's `b` left over; nothing follows."""
    graph = FakeContents({(TENANT, B): segment("b", "old"), (OTHER, B): segment("b")})
    return FakeTruth(graph, {A: segment("a"), B: segment("b", "new")}, follows=False)


async def test_missing_stale_and_surplus_items_are_found() -> None:
    truth = differing()

    found = await Verifier(truth, truth.graph).verify()

    assert found.items == {TENANT: 2, OTHER: 0}
    assert set(found.findings) == {
        Finding("graph", Difference.MISSING, TENANT, A),
        Finding("graph", Difference.STALE, TENANT, B),
        Finding("graph", Difference.LEFT_OVER, OTHER, B),
    }
    assert not found.followed


async def test_unprojected_item_is_no_difference() -> None:
    truth = FakeTruth(FakeContents(), {A: segment("a")})

    found = await Verifier(truth, truth.graph).verify()

    assert (found.findings, found.followed) == ([], True)


async def test_a_repair_leaves_no_difference() -> None:
    truth = differing()
    truth.vectors.append(Finding("embeddings", Difference.MISSING, TENANT, A))
    truth.graph.entities.append("unused")
    verifier = Verifier(truth, truth.graph)
    found = await verifier.verify()

    left = await verifier.repair(found)

    assert (left.findings, left.followed) == ([], True)
    assert set(truth.repaired) == set(found.findings)
    assert len(found.findings) == 5


async def test_a_rebuilt_graph_has_all_items_and_no_other() -> None:
    truth = differing()

    left = await Verifier(truth, truth.graph).rebuild_graph()

    assert left.findings == []
    assert truth.graph.nodes.keys() == {(TENANT, A), (TENANT, B)}
