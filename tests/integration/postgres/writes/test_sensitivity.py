"""Sensitive items are found by words, reach no projection, and are sent to no model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import pytest

from bench.speed.faults.relay import CHUNK_BYTES, Endpoint, Relay
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.errors import StatementRejectedError
from serving.adapters.postgres.writes.batch import write_batch
from serving.domain.budget import Deadline
from serving.domain.items.records import Item, ItemId, fact_id, segment_id
from serving.ports.embedding import Embedding, Vector
from serving.ports.memory_store import Batch, Selector
from tests.fakes.meaning import FakeEmbedder
from tests.fixtures.local_service import local_service
from tests.integration.postgres.log.following import (
    MODEL,
    bootstrap,
    embed,
    project_graph,
    run,
    waits_for_lock,
    write,
)
from tests.integration.postgres.words.searching import search
from tests.support.builders import TENANT, fact, ids, segment
from tests.support.waiting import until_async
from trivium import Fact, LookupKey, Retrieval, Segment
from trivium.aio import AsyncClient

pytestmark = pytest.mark.postgres


RESTING = fact("f", "Ann", "likes", "Goa", evidence=("a", "b"))


HIDDEN_B = segment("b", sensitive=True)


async def drawn(postgres: Postgres) -> tuple[list[ItemId], list[ItemId]]:
    """The items that the graph receives next, and those removed from it."""
    changes = await project_graph(postgres)
    shown = [row.item for _, row in changes.segments] + [row.item for _, row in changes.facts]
    return sorted(shown), sorted(item for _, item in changes.removed)


async def projected(postgres: Postgres, *items: Item) -> None:
    await write(postgres, *items)
    await embed(postgres)
    await project_graph(postgres)


async def embedded(postgres: Postgres) -> list[ItemId]:
    """The items that the index would hold, which are all that have a vector."""
    _, rows = await bootstrap(postgres)
    assert len(await run(postgres, "SELECT FROM embedding")) == len(rows)
    return sorted(item for _, item in rows)


async def test_sensitive_segments_are_found_by_words_only(
    postgres: Postgres,
) -> None:
    await write(postgres, segment("a"), HIDDEN_B, RESTING)

    found = await search(postgres.lexical, "Goa")
    assert sorted(candidate.item for candidate in found) == ids("a", "b")
    assert await embed(postgres) == ids("a")
    assert await drawn(postgres) == (ids("a"), [fact_id("f"), segment_id("b")])


@pytest.mark.parametrize("before", [[segment("b")], []], ids=["turned", "after the fact"])
async def test_sensitive_evidence_takes_the_vectors_in_its_transaction(
    postgres: Postgres, before: list[Item]
) -> None:
    await projected(postgres, segment("a"), RESTING, *before)
    position, _ = await bootstrap(postgres)

    await write(postgres, HIDDEN_B)

    assert await embedded(postgres) == ids("a")
    delta = await postgres.feed.changes_since(position, MODEL)
    hidden = [fact_id("f"), segment_id("b")]
    assert sorted(item for _, item in delta.removed) == hidden
    assert await drawn(postgres) == ([], hidden)


async def test_ceasing_to_be_sensitive_brings_the_facts_back(postgres: Postgres) -> None:
    await projected(postgres, segment("a"), HIDDEN_B, RESTING)

    await write(postgres, segment("b"))

    back = [fact_id("f"), segment_id("b")]
    assert sorted(await embed(postgres)) == back
    assert await drawn(postgres) == (back, [])


async def test_fact_returns_after_erasure_of_sensitive_evidence(postgres: Postgres) -> None:
    await projected(postgres, segment("a"), HIDDEN_B, RESTING)

    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))

    assert await embed(postgres) == [fact_id("f")]
    changes = await project_graph(postgres)
    assert [row.evidence for _, row in changes.facts] == [("a",)]


async def test_a_fact_that_turns_sensitive_itself_loses_its_vector(postgres: Postgres) -> None:
    await write(postgres, fact("f", "x", "y", "z"))
    await embed(postgres)

    await write(postgres, fact("f", "x", "y", "z", sensitive=True))

    assert await embedded(postgres) == []
    assert await embed(postgres) == []


async def test_segment_turns_sensitive_after_facts_being_written(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    batch = Batch(tenant=TENANT, items=[fact("f", "x", "y", "z", evidence=("b",))])

    async with postgres.database.transaction() as connection:
        await write_batch(connection, batch, exclusive=False)
        hiding = asyncio.create_task(write(postgres, HIDDEN_B))
        await until_async(lambda: waits_for_lock(postgres))
    receipt = await hiding

    [xid] = receipt.token.xids
    logged = "SELECT kind::text FROM change_log WHERE xid = %s::text::xid8 ORDER BY 1"
    assert await run(postgres, logged, str(xid)) == [("fact",), ("segment",)]


async def test_a_name_that_is_being_written_is_not_forgotten(postgres: Postgres) -> None:
    await write(postgres, segment("a", entities=("Goa",)))
    batch = Batch(tenant=TENANT, items=[segment("b", entities=("Goa",))])

    async def waits_or_ends() -> bool:
        return dropping.done() or await waits_for_lock(postgres)

    async with postgres.database.transaction() as connection:
        await write_batch(connection, batch, exclusive=False)
        dropping = asyncio.create_task(write(postgres, segment("a")))
        await until_async(waits_or_ends)
    await dropping

    assert (await postgres.store.known_names(TENANT)).keys() == {"goa"}


async def test_fact_waits_for_segment_that_turns_sensitive(postgres: Postgres) -> None:
    names = [f"{place:02}" for place in range(12)]
    await write(postgres, *(segment(name) for name in names))
    await embed(postgres)

    async def tell(name: str) -> None:
        await write(postgres, fact(name, "x", "y", name, evidence=(name,)))

    async def hide(name: str) -> None:
        await write(postgres, segment(name, sensitive=True))

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(tell(name))
            tasks.create_task(hide(name))
            tasks.create_task(embed(postgres))
    await embed(postgres)

    assert await embedded(postgres) == []


VECTOR = """
INSERT INTO embedding (model_id, key, window_no, text_hash, vector)
SELECT embedding_model.id, item.key, 0, '', ''
  FROM embedding_model, (SELECT key, id FROM segment UNION ALL SELECT key, id FROM fact) AS item
 WHERE item.id = %s
"""


@pytest.mark.parametrize("hidden", ["b", "f", "s"])
async def test_the_schema_rejects_a_vector_of_a_hidden_row(postgres: Postgres, hidden: str) -> None:
    sensitive = fact("s", "x", "y", "z", sensitive=True)
    await write(postgres, segment("a"), HIDDEN_B, sensitive, RESTING)
    await embed(postgres)

    with pytest.raises(StatementRejectedError, match="23514: embedding_of_visible"):
        await run(postgres, VECTOR, hidden)


@pytest.mark.parametrize(
    "hiding",
    [
        "UPDATE segment SET sensitive = true WHERE id = 'a'",  # which the fact rests on
        "UPDATE segment SET sensitive = true WHERE id = 'c'",
        "UPDATE fact SET sensitive = true WHERE id = 'f'",
        "UPDATE fact SET evidence = '{s}' WHERE id = 'f'",
        "UPDATE segment SET id = 'b', sensitive = true WHERE id = 's'",
    ],
)
async def test_the_schema_rejects_hiding_a_row_without_deleting_its_vector(
    postgres: Postgres, hiding: str
) -> None:
    await write(postgres, segment("a"), segment("c"), segment("s", sensitive=True), RESTING)
    await embed(postgres)
    await run(
        postgres,
        "DELETE FROM embedding USING segment WHERE segment.key = embedding.key AND id = 'a'",
    )

    with pytest.raises(StatementRejectedError, match="23514: embedding_of_visible"):
        await run(postgres, hiding)


async def test_no_statistics_of_the_planner_quote_a_text(postgres: Postgres) -> None:
    """Those of the columns that conditions read have ids, names, labels and single words."""
    said = [
        segment(
            f"{place}",
            f"text {place}",
            title=f"title {place}",
            speaker="speaker",
            session="session",
            labels={"label": "value"},
            entities=("Entity",),
            entity="entity",
            keywords=("keyword",),
        )
        for place in range(10)
    ]
    known = [fact(f"{place}", "subject", f"relation {place}", "object") for place in range(10)]
    await write(postgres, *said, *known)

    await run(postgres, "ANALYZE segment, fact")
    kept = await run(
        postgres,
        "SELECT DISTINCT attname::text FROM pg_stats WHERE tablename IN ('segment', 'fact') "
        "AND attname = ANY (%s)",
        ["id", "tags", *CONTENT],
    )
    assert {name for (name,) in kept} == {"id", "tags"}


CONTENT = [
    *("text", "title", "speaker", "session", "labels", "entities", "entity", "keywords"),
    *("subject", "relation", "object", "sentence"),
]


MARK = "xyzzy"
SAID = Segment(
    id="said",
    text=f"The boat is at {MARK}.",
    title=f"title {MARK}",
    speaker=f"Speaker{MARK}",
    session=f"session-{MARK}",
    labels={"label": MARK},
    entities=(f"Entity{MARK}",),
)
KNOWN = Fact(
    id="known",
    subject=f"Subject{MARK}",
    relation=f"moored at {MARK}",
    object=f"Object{MARK}",
    evidence=("said",),
)
OTHER = Segment(id="other", text="The boat is blue.", entities=("Boat",))


@dataclass(slots=True)
class Tap:
    """Everything that the service sends to its models and to Neo4j, in bytes."""

    sent: list[bytes] = field(default_factory=list)

    def texts(self, *texts: str) -> None:
        self.sent += [text.encode() for text in texts]

    def clear(self) -> None:
        self.sent.clear()

    def has(self, text: str) -> bool:
        return text.encode() in b"".join(self.sent)


class TappedEmbedder(FakeEmbedder):
    def __init__(self, tap: Tap) -> None:
        super().__init__()
        self._tap = tap

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        self._tap.texts(text)
        return await super().embed_query(text, deadline)

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        self._tap.texts(*texts)
        return await super().embed_documents(texts)


@dataclass(frozen=True, slots=True)
class TappedReranker:
    tap: Tap

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        self.tap.texts(query, *texts)
        return [0.0] * len(texts)


class TappedRelay(Relay):
    """A relay to Neo4j; Bolt sends texts as they are."""

    def __init__(self, uri: str, tap: Tap) -> None:
        super().__init__(Endpoint(port=urlsplit(uri).port or 0), Endpoint())
        self._tap = tap

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, late: bool
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if not late:  # a request
                self._tap.sent.append(data)
            writer.write(data)
            await writer.drain()


@dataclass(frozen=True, slots=True)
class Memory:
    client: AsyncClient
    tap: Tap
    log: pytest.LogCaptureFixture

    async def ask(self, *items: Segment | Fact) -> Retrieval:
        """Writes the items, asks for the boat when all legs have them, and reranks."""
        token = (await self.client.ingest(items)).consistency_token
        await self.client.retrieve("red", consistency_token=token, timeout=60)
        return await self.client.retrieve(
            "Where is the boat?", profile="precise", consistency_token=token, timeout=60
        )

    def has_shown(self, text: str) -> bool:
        """Whether the text was sent, or logged with the fields that a formatter may show."""
        logged = [f"{record.getMessage()} {record.__dict__}" for record in self.log.records]
        return self.tap.has(text) or text in "\n".join(logged)


@pytest.fixture
async def memory(
    postgres_dsn: str, neo4j_uri: str, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Memory]:
    caplog.set_level("DEBUG", "serving")
    tap = Tap()
    relay = TappedRelay(neo4j_uri, tap)
    await relay.open()
    async with local_service(
        postgres_dsn,
        f"bolt://127.0.0.1:{relay.listen.port}",
        embedder=TappedEmbedder(tap),
        reranker=TappedReranker(tap),
    ) as client:
        yield Memory(client, tap, caplog)
    await relay.close()


@pytest.mark.neo4j
async def test_sensitive_items_are_found_and_sent_nowhere(memory: Memory) -> None:
    answer = await memory.ask(replace(SAID, sensitive=True), KNOWN, OTHER)

    assert [{*hit.legs} for hit in answer.hits if hit.id == "said"] == [{"lexical"}]
    assert memory.tap.has(OTHER.text)
    assert not memory.has_shown(MARK)

    # The receipt of their erasure asks PostgreSQL alone for the words of it.
    receipt = await memory.client.forget(segment_ids=["said"])

    assert receipt.verified, receipt
    asked = {each.store: [lookup.key for lookup in each.lookups] for each in receipt.receipts}
    assert asked["postgres"] == [LookupKey.ID, LookupKey.TEXT]
    assert asked["graph"] == [LookupKey.ID]
    assert not memory.has_shown(MARK)


@pytest.mark.neo4j
async def test_items_turned_sensitive_are_sent_nowhere(memory: Memory) -> None:
    await memory.ask(SAID, KNOWN, OTHER)
    for text in (SAID.text, f"Entity{MARK}", f"Subject{MARK}", "Where is the boat?"):
        assert memory.tap.has(text)
    memory.tap.clear()
    memory.log.clear()

    answer = await memory.ask(replace(SAID, sensitive=True))

    assert [{*hit.legs} for hit in answer.hits if hit.id == "said"] == [{"lexical"}]
    assert memory.tap.has(OTHER.text)
    assert not memory.has_shown(MARK)
