"""What is sensitive is sent to no model and to no graph, and is in no log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import pytest

from serving.domain.budget import Deadline
from serving.ports.embedding import Embedding, Vector
from tests.fakes.meaning import FakeEmbedder
from tests.fixtures.local_service import local_service
from trivium import Fact, LookupKey, Retrieval, Segment
from trivium.aio import AsyncClient

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]

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


@asynccontextmanager
async def tapped(uri: str, tap: Tap) -> AsyncIterator[str]:
    """The address of a relay to Neo4j; Bolt sends texts as they are."""
    target = urlsplit(uri)
    relaying: set[asyncio.Task[None]] = set()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        relaying.add(task)
        there, back = await asyncio.open_connection(target.hostname, target.port)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(copy(reader, back, tap))
                tasks.create_task(copy(there, writer, None))
        finally:
            writer.close()
            back.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"bolt://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in relaying:
            task.cancel()
        await asyncio.gather(*relaying, return_exceptions=True)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tap: Tap | None) -> None:
    while data := await reader.read(1 << 16):
        if tap is not None:
            tap.sent.append(data)
        writer.write(data)
        await writer.drain()
    writer.close()


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
    async with (
        tapped(neo4j_uri, tap) as relayed,
        local_service(
            postgres_dsn, relayed, embedder=TappedEmbedder(tap), reranker=TappedReranker(tap)
        ) as client,
    ):
        yield Memory(client, tap, caplog)


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
