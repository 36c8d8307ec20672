"""The receipt of an erasure finds by text and by vector what no id leads to any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.vector_index import ExactIndex
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, TenantName
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.writes.forget import Eraser, LookupKey
from serving.ports.embedding import Embedding, VectorLike, Vectors
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import EraseReceipt, Selector
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder, FakeEncoder
from tests.fakes.pipeline import FixedConsistency, FixedIndex
from tests.integration.postgres.log.following import bootstrap, project_graph, write
from tests.support.builders import NOON, TENANT, days, fact, segment

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]

SAID = segment("said", "We moor the boat in Ostia.", entities=("Ostia",))
ALIKE = [segment(f"alike-{place}", SAID.text, entities=SAID.entities) for place in range(3)]
OVER = fact("over", "Mara", "moored in", "Porto", evidence=("said",), valid_to=NOON + days(1))
"""It holds no longer: no question of today finds it."""

Then = Callable[[EraseReceipt], Awaitable[None]]
Found = dict[tuple[str, LookupKey], tuple[int, int]]


class NoIdLeadsThere:
    """A port that finds no item by its id.

    Args:
        port: The port.
        then: What happens after an erasure.
    """

    def __init__(self, port: object, then: Then | None = None) -> None:
        self._port, self._then = port, then

    def __getattr__(self, method: str) -> Any:
        return getattr(self._port, method)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return 0

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        receipt: EraseReceipt = await cast(Any, self._port).erase(tenant, selector)
        if self._then is not None:
            await self._then(receipt)
        return receipt


class IndexOver(FixedIndex):
    """The index of an engine, without a log."""

    def __init__(self, engine: ExactIndex) -> None:
        super().__init__()
        self._engine = engine

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        return IndexAnswer(self._engine.search(vector, wanted).candidates, epoch=1)


@dataclass(frozen=True, slots=True)
class Stores:
    """Stores that hold the same items, and follow nothing by themselves."""

    postgres: Postgres
    graph: Neo4jGraph
    engine: ExactIndex

    async def forget(self, then: Then) -> Found:
        """Erases the segment `said`; what each lookup was asked and found, but those by key."""
        eraser = Eraser(
            cast(Any, NoIdLeadsThere(self.postgres.store, then)),
            self.postgres.lexical,
            VectorSpace.of(FakeEmbedder(), IndexOver(self.engine)),
            cast(Any, NoIdLeadsThere(self.graph)),
            FixedConsistency(),
        )
        forgotten = await eraser.forget(TENANT, Selector(items=(SAID.item,)), Deadline.after(60))
        assert all(each.verified for each in forgotten.receipts), forgotten.receipts
        return {
            (each.store, lookup.key): (lookup.asked, lookup.found)
            for each in forgotten.receipts
            for lookup in each.lookups
            if lookup.key is not LookupKey.ID
        }


async def store_vectors(postgres: Postgres, embed: Callable[[list[str]], list[Vectors]]) -> None:
    """Stores the vectors of all rows that lack one."""
    log = postgres.change_log
    batch = await log.next_batch("embedding", FAKE_MODEL, 10)
    tasks = await log.embedding_tasks(batch.changes, FAKE_MODEL)
    made = map(Embedding, embed([task.text for task in tasks]))
    await log.save_embeddings(FAKE_MODEL, list(zip(tasks, made, strict=True)))


def meanings(texts: list[str]) -> list[Vectors]:
    encoder = FakeEncoder()
    return [encoder.encode(encoder.tokenize_document(text)) for text in texts]


@pytest.fixture
async def stores(postgres: Postgres, neo4j_graph: Neo4jGraph) -> Stores:
    await write(postgres, SAID, *ALIKE, OVER)
    await store_vectors(postgres, meanings)
    _, rows = await bootstrap(postgres, FAKE_MODEL)
    engine = ExactIndex(FAKE_MODEL.dimension)
    engine.apply([*rows.values()], [])
    await neo4j_graph.apply(await project_graph(postgres))
    return Stores(postgres, neo4j_graph, engine)


async def test_remaining_item_is_found_by_text_and_vector(stores: Stores) -> None:
    async def is_back(_: EraseReceipt) -> None:
        await write(stores.postgres, SAID)

    assert await stores.forget(then=is_back) == {
        ("postgres", LookupKey.TEXT): (1, 1),
        ("vector_index", LookupKey.VECTOR): (2, 2),
        ("graph", LookupKey.TEXT): (2, 2),
    }


async def test_erased_item_is_not_confused_with_similar_ones(stores: Stores) -> None:
    async def follow(erased: EraseReceipt) -> None:
        removed = [(TENANT, item) for item in erased.items]
        stores.engine.apply([], removed)
        await stores.graph.apply(GraphChanges(removed=removed))

    assert await stores.forget(then=follow) == {
        ("postgres", LookupKey.TEXT): (1, 0),
        ("vector_index", LookupKey.VECTOR): (2, 0),
        ("graph", LookupKey.TEXT): (2, 0),
    }


async def test_a_vector_of_nothing_is_not_asked_for(postgres: Postgres) -> None:
    await write(postgres, SAID)
    nothing = np.zeros((1, FAKE_MODEL.dimension), np.float32)
    await store_vectors(postgres, lambda texts: [nothing for _ in texts])

    [erased] = (await postgres.store.erase(TENANT, Selector(items=(SAID.item,)))).sample

    assert erased.vectors == {}
