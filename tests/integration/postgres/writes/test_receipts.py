"""The receipt of an erasure: complete after any kill, and true by id, text and vector."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import neo4j
import numpy as np
import pytest

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.log.entries import note_erasure
from serving.adapters.vector_index import ExactIndex
from serving.composition.background import in_background
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, TenantName, fact_id, segment_id
from serving.domain.questions.query import Filter
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.writes.forget import Eraser, Forgotten, LookupKey
from serving.pipeline.writes.projector import EmbeddingWork, GraphWork, Projector
from serving.ports.embedding import Embedding, Vectors
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import EraseReceipt, Selector
from tests.fakes.meaning import FAKE_MODEL, EngineIndex, FakeEmbedder, FakeEncoder
from tests.fakes.pipeline import FixedConsistency
from tests.integration.postgres.log.following import bootstrap, project_graph, write
from tests.integration.postgres.writes.test_erasure import (
    MARK,
    leave_traces,
    marked_items,
    rows_of_key,
    tables_with,
)
from tests.support.builders import NOON, TENANT, days, fact, segment

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]


SELECTORS = {
    "items": Selector(items=(segment_id("a"),)),
    "session": Selector(session=f"{MARK} session"),
    "speaker": Selector(speaker=f"{MARK} speaker"),
    "filter": Selector(filter=Filter(labels={"label": (MARK,)})),
    "everything": Selector(everything=True),
}
COMMITTING = "erasure.note_erasure"
"""The last statement of the transaction."""
CHANGES = (COMMITTING, "store.erase", "graph.apply", "change_log.advance")
READS = (
    "store.count",
    "store.count_derived",
    "index.caught_up",
    "index.count",
    "consistency.graph_has_seen",
    "change_log.graph_changes",
    "graph.count",
)
"""The other calls of ports that an erasure leads to, of the use case and of the projections."""
STEPS = [
    *(f"{when} {call}" for call in CHANGES for when in ("before", "after")),
    *(f"before {call}" for call in READS),
]


ERASED_FROM = {
    *("postgres", "embeddings", "access_counts", "dead_letters", "names"),
    *("vector_index", "graph"),
}


class Kill:
    """Lets a process stop at one step for ever; all other steps pass."""

    def __init__(self, step: str = "") -> None:
        self.reached = asyncio.Event()
        self.armed = False
        self._step = step

    async def stop_at(self, step: str) -> None:
        if self.armed and step == self._step:
            self.reached.set()
            await asyncio.Event().wait()

    def watching(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        async def watched(*args: Any, **kwargs: Any) -> Any:
            await self.stop_at(f"before {name}")
            answer = await function(*args, **kwargs)
            await self.stop_at(f"after {name}")
            return answer

        return watched if inspect.iscoroutinefunction(function) else function


@dataclass(frozen=True, slots=True)
class Watched:
    """A port whose calls are steps."""

    name: str
    port: object
    kill: Kill

    def __getattr__(self, method: str) -> Any:
        return self.kill.watching(f"{self.name}.{method}", getattr(self.port, method))


@dataclass(frozen=True, slots=True)
class Process:
    """What an erasure needs of a running service."""

    postgres: Postgres
    index: LogFollowingIndex
    graph: Neo4jGraph
    eraser: Eraser

    async def forget(self, selector: Selector) -> Forgotten:
        return await self.eraser.forget(TENANT, selector, Deadline.after(60))


@dataclass(frozen=True, slots=True)
class Stores:
    dsn: str
    neo4j_uri: str

    @asynccontextmanager
    async def process(self, kill: Kill) -> AsyncIterator[Process]:
        graph = Neo4jGraph(Neo4jSettings(uri=self.neo4j_uri))

        def watched(name: str, port: object) -> Any:
            return Watched(name, port, kill)

        async with Postgres(self.dsn) as postgres:
            embedder, log = FakeEmbedder(), watched("change_log", postgres.change_log)
            index = LogFollowingIndex(
                postgres.feed, FAKE_MODEL, lambda: ExactIndex(FAKE_MODEL.dimension)
            )
            eraser = Eraser(
                watched("store", postgres.store),
                watched("words", postgres.lexical),
                VectorSpace.of(embedder, watched("index", index)),
                watched("graph", graph),
                watched("consistency", postgres.consistency),
            )
            embedding = Projector(log, EmbeddingWork(log, embedder))
            drawing = Projector(log, GraphWork(log, watched("graph", graph)))
            try:
                async with in_background(embedding.run()), in_background(drawing.run()), index:
                    yield Process(postgres, index, graph, eraser)
            finally:
                await graph.close()


@pytest.fixture
async def stores(postgres_dsn: str, neo4j_uri: str, neo4j_graph: Neo4jGraph) -> Stores:
    """Every store has something of the segment `a` and of the fact that rests on it."""
    stores = Stores(postgres_dsn, neo4j_uri)
    async with stores.process(Kill()) as process:
        postgres = process.postgres
        token = (await write(postgres, *marked_items())).token
        assert await process.index.caught_up(token, Deadline.after(60))
        assert await postgres.consistency.graph_has_seen(token, Deadline.after(60))
        await leave_traces(postgres, TENANT)
    return stores


def left_in_graph(cypher: neo4j.Driver) -> int:
    records, _, _ = cypher.execute_query(
        "MATCH (node) WHERE any(name IN keys(node) WHERE toString(node[name]) CONTAINS $mark) "
        "OR node.id IN ['a', 'f'] RETURN count(node)",
        mark=MARK,
    )
    return int(records[0][0])


async def rows_left(postgres: Postgres) -> int:
    return sum([sum((await rows_of_key(postgres, key)).values()) for key in (1, 2)])


async def test_stores_hold_items_before_their_erasure(stores: Stores, cypher: neo4j.Driver) -> None:
    async with Postgres(stores.dsn) as postgres:
        assert {"segment", "fact", "entity", "dead_letter"} <= {*await tables_with(postgres, MARK)}
        assert await rows_left(postgres) == 8
    assert left_in_graph(cypher) >= 2


# A process that is killed as Neo4j's driver connects does not close the connection.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize(
    ("selected", "step"),
    [
        *(("items", step) for step in STEPS),
        # Their items are not known to the second call.
        *((selected, "after store.erase") for selected in SELECTORS if selected != "items"),
    ],
)
async def test_killed_erasure_is_completed_by_the_same_call(
    stores: Stores,
    cypher: neo4j.Driver,
    selected: str,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kill, selector = Kill(step), SELECTORS[selected]
    with monkeypatch.context() as patched:
        committing = kill.watching(COMMITTING, note_erasure)
        patched.setattr(f"serving.adapters.postgres.writes.{COMMITTING}", committing)
        async with stores.process(kill) as process:
            assert await process.index.ready(Deadline.after(60))
            kill.armed = True
            erasing = asyncio.create_task(process.forget(selector))
            await kill.reached.wait()
            erasing.cancel()
            await asyncio.gather(erasing, return_exceptions=True)
        gc.collect()  # within this test, which expects what the process did not close

    async with stores.process(Kill()) as process:
        assert await process.index.ready(Deadline.after(60))
        receipt = await process.forget(selector)

        assert {each.store for each in receipt.receipts} == ERASED_FROM
        assert all(each.verified and not each.remaining for each in receipt.receipts), receipt
        assert await tables_with(process.postgres, MARK) == []
        assert await rows_left(process.postgres) == 0
        assert await process.index.count(TENANT, [segment_id("a"), fact_id("f")]) == 0
        assert left_in_graph(cypher) == 0


SAID = segment("said", "We moor the boat in Ostia.", entities=("Ostia",))
ALIKE = [segment(f"alike-{place}", SAID.text, entities=SAID.entities) for place in range(3)]
OVER = fact("over", "Mara", "moored in", "Porto", evidence=("said",), valid_to=NOON + days(1))
"""It holds no longer: no question of today finds it."""

Then = Callable[[EraseReceipt], Awaitable[None]]
Found = dict[tuple[str, LookupKey], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class NoIdLeadsThere:
    """A port that finds no item by its id; `then` happens after an erasure."""

    port: object
    then: Then | None = None

    def __getattr__(self, method: str) -> Any:
        return getattr(self.port, method)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return 0

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        receipt: EraseReceipt = await cast(Any, self.port).erase(tenant, selector)
        if self.then is not None:
            await self.then(receipt)
        return receipt


@dataclass(frozen=True, slots=True)
class HeldStores:
    """Stores that hold the same items, and follow nothing by themselves."""

    postgres: Postgres
    graph: Neo4jGraph
    engine: ExactIndex

    async def forget(self, then: Then) -> Found:
        """Erases the segment `said`; what each lookup was asked and found, but those by key."""
        eraser = Eraser(
            cast(Any, NoIdLeadsThere(self.postgres.store, then)),
            self.postgres.lexical,
            VectorSpace.of(FakeEmbedder(), cast(Any, NoIdLeadsThere(EngineIndex(self.engine)))),
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
async def held(postgres: Postgres, neo4j_graph: Neo4jGraph) -> HeldStores:
    await write(postgres, SAID, *ALIKE, OVER)
    await store_vectors(postgres, meanings)
    _, rows = await bootstrap(postgres, FAKE_MODEL)
    engine = ExactIndex(FAKE_MODEL.dimension)
    engine.apply([*rows.values()], [])
    await neo4j_graph.apply(await project_graph(postgres))
    return HeldStores(postgres, neo4j_graph, engine)


async def test_remaining_item_is_found_by_text_and_vector(held: HeldStores) -> None:
    async def is_back(_: EraseReceipt) -> None:
        await write(held.postgres, SAID)

    assert await held.forget(then=is_back) == {
        ("postgres", LookupKey.TEXT): (1, 1),
        ("vector_index", LookupKey.VECTOR): (2, 2),
        ("graph", LookupKey.TEXT): (2, 2),
    }


async def test_erased_item_is_not_confused_with_similar_ones(held: HeldStores) -> None:
    async def follow(erased: EraseReceipt) -> None:
        removed = [(TENANT, item) for item in erased.items]
        held.engine.apply([], removed)
        await held.graph.apply(GraphChanges(removed=removed))

    assert await held.forget(then=follow) == {
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
