"""Parts go away and come back: answers go on, say what they lack, and nothing written is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.speed.faults.relay import Endpoint, Relay
from bench.speed.ingest import only
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.vector_index import ExactIndex
from serving.desk.embedded_neo4j import EmbeddedNeo4j
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.domain.breaker import FAILURES
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.ports.embedding import Embedding, EmbeddingModel, Vector, Vectors
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder
from tests.fixtures.local_service import answered, local_service
from tests.fixtures.neo4j import leaves_sockets
from tests.fixtures.postgres import QUICK
from tests.support.answers import states
from tests.support.waiting import until_async
from trivium import Fact, Health, Segment
from trivium.aio import AsyncClient
from trivium.errors import DeadlineError, UnavailableError
from trivium.values import LegState, Retrieval

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.timeout(600)]


SAID = Segment(id="t1", speaker="Mara", text="Lotus Books hired Tom.", entities=["Tom", "Mara"])
KNOWN = Fact(id="f1", subject="Tom", relation="works at", object="Lotus Books", evidence=("t1",))
EARLIER = Fact(id="f0", subject="Mara", relation="owns", object="Lotus Books", evidence=("t1",))


OTHER_LEGS = dict.fromkeys(
    ("lexical", "graph", "related", "replies", "temporal", "holding"), LegState.OK
)


NO_REPLIES = {"replies": LegState.SKIPPED}
"""An index that a test gives is asked as one in shards, which knows no turns of a session."""


def with_meaning(state: LegState) -> dict[str, LegState]:
    """The states of all legs, of which those by meaning have this one."""
    return OTHER_LEGS | dict.fromkeys(("dense", "context", "facts"), state)


async def ingested(memory: AsyncClient, *items: Segment | Fact) -> str:
    """The token of a write that the graph has seen."""
    token = (await memory.ingest(items)).consistency_token
    await until_async(lambda: _graph_is_ok(memory, token))
    return token


async def _graph_is_ok(memory: AsyncClient, token: str) -> bool:
    alone = await memory.retrieve("Tom", consistency_token=token, leg_overrides=only("graph"))
    return states(alone)["graph"] is LegState.OK


class GatedEmbedder(FakeEmbedder):
    """Holds back documents, and only them, until the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        await self.gate.wait()
        return await super().embed_documents(texts)


async def test_a_delayed_embedder_makes_dense_stale_and_nothing_else(
    postgres_dsn: str, neo4j_uri: str
) -> None:
    embedder = GatedEmbedder()
    async with local_service(postgres_dsn, neo4j_uri, embedder=embedder) as memory:
        token = await ingested(memory, SAID, KNOWN)

        early = await memory.retrieve("Who hired Tom?", consistency_token=token, timeout=8)
        embedder.gate.set()
        late = await memory.retrieve("Who hired Tom?", consistency_token=token)

    # It starts when dense has given up waiting: what is left may be too short on a busy machine.
    related = states(early)["related"]
    assert related in (LegState.STALE, LegState.TIMED_OUT)
    stale = with_meaning(LegState.STALE) | {"replies": LegState.STALE}
    assert states(early) == {**stale, "related": related}
    assert set(states(late).values()) == {LegState.OK}


class ChokingEmbedder(FakeEmbedder):
    """Cannot embed one word."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        if any("poison" in text for text in texts):
            raise ValueError("cannot embed this")
        return await super().embed_documents(texts)


async def test_poisoned_row_is_dead_lettered_alone(postgres_dsn: str, neo4j_uri: str) -> None:
    poisoned = Segment(id="bad", text="A poison for the encoder.")
    async with local_service(postgres_dsn, neo4j_uri, embedder=ChokingEmbedder()) as memory:
        token = (await memory.ingest([poisoned, SAID])).consistency_token

        answer = await memory.retrieve("Who hired Tom?", consistency_token=token)
        stats = await memory.stats()

    reports = {report.leg: report for report in answer.leg_reports}
    assert reports["dense"].state is LegState.OK
    assert reports["dense"].dead_letter_count == 1
    assert [(row.projection, row.item.id, row.reason) for row in stats.dead_letters] == [
        ("embedding", "bad", "ValueError")
    ]
    assert stats.tenant is not None
    assert stats.tenant.embedded_count == 1


@dataclass(frozen=True, slots=True)
class FailingNeo4j:
    """A Neo4j that a test takes away and gives back."""

    uri: str
    fail: Callable[[], Awaitable[None]]
    heal: Callable[[], Awaitable[None]]


@pytest.fixture
async def unreachable_neo4j(neo4j_uri: str) -> AsyncIterator[FailingNeo4j]:
    """That of the session, with a relay before it that refuses connections and ends open ones."""
    relay = Relay(Endpoint(port=urlsplit(neo4j_uri).port or 0), Endpoint())
    await relay.open()
    yield FailingNeo4j(f"bolt://127.0.0.1:{relay.listen.port}", relay.close, relay.open)
    await relay.close()


@pytest.fixture
async def killed_neo4j(tmp_path: Path, jar_cache: Path) -> AsyncIterator[FailingNeo4j]:
    server = EmbeddedNeo4j(tmp_path, jar_cache)

    async def kill() -> None:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        await asyncio.to_thread(server.stop)

    async def start() -> None:
        await asyncio.to_thread(server.start)

    yield FailingNeo4j(await asyncio.to_thread(server.start), kill, start)
    await asyncio.to_thread(server.stop)


@leaves_sockets
async def test_neo4j_missing_at_start_is_said_and_heals(
    postgres_dsn: str, unreachable_neo4j: FailingNeo4j
) -> None:
    await unreachable_neo4j.fail()
    async with local_service(postgres_dsn, unreachable_neo4j.uri) as memory:
        token = (await memory.ingest([SAID, KNOWN])).consistency_token

        without = await memory.retrieve("Who hired Tom?")
        degraded = (await memory.stats()).service.degraded
        await unreachable_neo4j.heal()
        await until_async(lambda: _graph_is_ok(memory, token))

    assert states(without)["graph"] is LegState.FAILED
    assert without.hits[0].id == "t1"
    assert any(said.startswith("graph") for said in degraded)


@pytest.fixture(
    params=["unreachable_neo4j", pytest.param("killed_neo4j", marks=pytest.mark.release)]
)
def failing_neo4j(request: pytest.FixtureRequest) -> FailingNeo4j:
    neo4j: FailingNeo4j = request.getfixturevalue(request.param)
    return neo4j


@leaves_sockets
async def test_neo4j_lost_while_serving_loses_nothing(
    postgres_dsn: str, failing_neo4j: FailingNeo4j
) -> None:
    async with local_service(postgres_dsn, failing_neo4j.uri) as memory:
        await ingested(memory, SAID, EARLIER)

        await failing_neo4j.fail()
        during = await memory.retrieve("Who hired Tom?")
        token = (await memory.ingest([KNOWN])).consistency_token
        await failing_neo4j.heal()
        await until_async(lambda: _graph_is_ok(memory, token))
        after = await memory.retrieve("Tom", leg_overrides=only("graph"), explain=True)

    assert states(during)["graph"] is LegState.FAILED
    assert during.hits[0].id == "t1"
    assert after.hits[0].ledger is not None
    assert "f1" in after.hits[0].ledger.leg_terms[0].fact_ids


@asynccontextmanager
async def idle_index(dsn: str) -> AsyncIterator[LogFollowingIndex]:
    """An index that holds nothing until it is started."""
    async with Postgres(dsn, work_connections=2, search_connections=1) as postgres:
        index = LogFollowingIndex(
            postgres.feed, FAKE_MODEL, lambda: ExactIndex(FAKE_MODEL.dimension)
        )
        yield index
        await index.stop()


async def test_index_unfilled_at_start_is_reported_and_heals(
    postgres_dsn: str, neo4j_uri: str
) -> None:
    async with (
        idle_index(postgres_dsn) as index,
        local_service(postgres_dsn, neo4j_uri, index=index) as memory,
    ):
        token = await ingested(memory, SAID, KNOWN)
        without = await memory.retrieve("Who hired Tom?", timeout=30)
        stats, health = await memory.stats(), await memory.check()
        await index.start()
        await until_async(lambda: _all_are_ok(memory, token))
        healed = await memory.stats()

    assert health is Health.SERVING
    assert states(without) == with_meaning(LegState.SKIPPED) | NO_REPLIES
    assert without.hits[0].id == "t1"
    assert stats.service.degraded == ("index: starting",)
    assert (stats.index.ready, stats.index.reason) == (False, "starting")
    assert (healed.service.degraded, healed.index.ready) == ((), True)


@dataclass
class UnreachableIndex:
    """The index of a replica that is not there until it has `arrived`."""

    index: LogFollowingIndex
    arrived: bool = False

    def __getattr__(self, method: str) -> Any:
        async def called(*arguments: object) -> object:
            if not self.arrived:
                raise DependencyError("index", "the replica cannot be reached")
            return await getattr(self.index, method)(*arguments)

        return called


async def test_index_unreachable_at_start_is_reported_and_heals(
    postgres_dsn: str, neo4j_uri: str
) -> None:
    async with idle_index(postgres_dsn) as filled:
        await filled.start()
        index = UnreachableIndex(filled)
        async with local_service(postgres_dsn, neo4j_uri, index=index) as memory:
            token = await ingested(memory, SAID, KNOWN)
            without = await memory.retrieve("Who hired Tom?", timeout=30)
            degraded = (await memory.stats()).service.degraded
            index.arrived = True
            await until_async(lambda: _all_are_ok(memory, token))

    failed = with_meaning(LegState.FAILED) | NO_REPLIES
    assert states(without) == {**failed, "related": LegState.PARTIAL}
    assert without.hits[0].id == "t1"
    assert any(said.startswith("index") for said in degraded)


async def test_postgres_missing_at_start_heals(short_directory: Path, neo4j_uri: str) -> None:
    server = EmbeddedPostgres(short_directory / "late", settings=QUICK)
    dsn = await asyncio.to_thread(server.start)
    await asyncio.to_thread(server.stop)
    async with local_service(dsn, neo4j_uri) as memory:
        unhealthy = await memory.check()
        with pytest.raises(UnavailableError) as refused:
            await memory.retrieve("Who hired Tom?")
        with pytest.raises(UnavailableError):
            await memory.ingest([SAID])

        assert await asyncio.to_thread(server.start) == dsn
        try:
            await until_async(lambda: _is_serving(memory))
            token = (await memory.ingest([SAID])).consistency_token
            answer = await memory.retrieve("Who hired Tom?", consistency_token=token)
        finally:
            await asyncio.to_thread(server.stop)

    assert unhealthy.value == "not serving"
    assert refused.value.reason == "STORE_UNAVAILABLE"
    assert answer.hits[0].id == "t1"


async def _is_serving(memory: AsyncClient) -> bool:
    return (await memory.check()).value == "serving"


class OtherEmbedder(GatedEmbedder):
    """The same vectors under another name: another model, as far as anyone can tell."""

    async def model(self) -> EmbeddingModel:
        return EmbeddingModel("another", (await super().model()).dimension)


class WiderEmbedder(GatedEmbedder):
    """A model whose vectors cannot even be compared with the other's by mistake."""

    async def model(self) -> EmbeddingModel:
        return EmbeddingModel("wider", 2 * FAKE_MODEL.dimension)

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        return _doubled(await super().embed_query(text, deadline))

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        made = await super().embed_documents(texts)
        return [Embedding(_doubled(each.vectors)) for each in made]


def _doubled(vectors: Vectors) -> Vectors:
    doubled: Vectors = np.concatenate([vectors, vectors], axis=-1) / np.sqrt(2, dtype=np.float32)
    return doubled


@pytest.mark.parametrize("changed", [OtherEmbedder, WiderEmbedder])
async def test_changed_model_skips_dense_until_rows_are_embedded(
    postgres_dsn: str, neo4j_uri: str, changed: type[GatedEmbedder]
) -> None:
    async with local_service(postgres_dsn, neo4j_uri) as memory:
        token = (await memory.ingest([SAID, KNOWN])).consistency_token
        await memory.retrieve("Who hired Tom?", consistency_token=token)
    embedder = changed()
    fingerprint = (await embedder.model()).fingerprint
    async with local_service(postgres_dsn, neo4j_uri, embedder=embedder) as memory:
        during = await memory.retrieve("Who hired Tom?")
        embedder.gate.set()
        await until_async(lambda: _model_is(memory, fingerprint))
        after = await memory.retrieve("Mara: Lotus Books hired Tom.", leg_overrides=only("dense"))

    report = next(report for report in during.leg_reports if report.leg == "dense")
    assert report.state is LegState.SKIPPED
    assert report.reason.startswith("re-embedding")
    assert states(during)["lexical"] is LegState.OK
    assert during.hits[0].id == "t1"
    assert states(after)["dense"] is LegState.OK
    assert after.hits


class RefusingEmbedder(FakeEmbedder):
    """Refuses questions, until it does not."""

    refuses = True

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        if self.refuses:
            raise DependencyError("embedder", "refused")
        return await super().embed_query(text, deadline)


async def test_dependency_is_found_again_without_questions(
    postgres_dsn: str, neo4j_uri: str
) -> None:
    embedder = RefusingEmbedder()
    async with local_service(postgres_dsn, neo4j_uri, embedder=embedder) as memory:
        token = (await memory.ingest([SAID])).consistency_token
        for number in range(FAILURES):
            await memory.retrieve(f"Who hired Tom in {number}?", consistency_token=token)
        before = (await memory.stats()).service.degraded
        embedder.refuses = False
        await until_async(lambda: _is_whole(memory))

    assert [each for each in before if each.startswith("embedder: breaker open")]


async def _is_whole(memory: AsyncClient) -> bool:
    return not (await memory.stats()).service.degraded


async def _all_are_ok(memory: AsyncClient, token: str) -> bool:
    answer = await memory.retrieve("Who hired Tom?", consistency_token=token)
    return states(answer) == with_meaning(LegState.OK) | NO_REPLIES


async def _model_is(memory: AsyncClient, fingerprint: str) -> bool:
    stats = await memory.stats()
    return stats.index.ready and stats.service.model_fingerprint == fingerprint


ENOUGH = 2**28
NO_NEO4J = "bolt://127.0.0.1:1"
QUESTION = "Who hired Tom?"


def legs_in_memory(answer: Retrieval) -> set[str]:
    """The legs that say that no store was asked."""
    return {report.leg for report in answer.leg_reports if report.in_memory}


@leaves_sockets
async def test_unreachable_neo4j_fails_no_leg_in_memory(postgres_dsn: str) -> None:
    async with local_service(postgres_dsn, NO_NEO4J, view_bytes=ENOUGH) as memory:
        await ingested(memory, SAID, KNOWN)
        of_memory = await memory.retrieve(QUESTION, timeout=5)
        of_stores = await memory.retrieve(QUESTION, profile_overrides={"in_memory": False})

    assert legs_in_memory(of_memory) == {"graph", "lexical"}
    assert states(of_stores)["graph"] is LegState.FAILED
    assert not legs_in_memory(of_stores)


@leaves_sockets
async def test_lost_postgres_ends_answers_from_memory(postgres_dsn: str) -> None:
    server = conninfo_to_dict(postgres_dsn)
    socket = Path(str(server["host"])) / f".s.PGSQL.{server['port']}"
    relay = Relay(Endpoint(path=socket), Endpoint())
    await relay.open()
    dsn = make_conninfo(postgres_dsn, host="127.0.0.1", port=relay.listen.port)
    async with local_service(dsn, NO_NEO4J, view_bytes=ENOUGH) as memory:
        token = await ingested(memory, SAID, KNOWN)

        await relay.close()
        await until_async(lambda: is_unavailable(memory))
        await relay.open()
        await until_async(lambda: graph_is_ok_again(memory, token))
        await relay.close()


async def is_unavailable(memory: AsyncClient) -> bool:
    try:
        await memory.retrieve(QUESTION, timeout=5)
    except (UnavailableError, DeadlineError):
        return True
    return False


async def graph_is_ok_again(memory: AsyncClient, token: str) -> bool:
    with contextlib.suppress(UnavailableError, DeadlineError):
        return await _graph_is_ok(memory, token)
    return False


async def test_receipt_of_an_erasure_names_memory(postgres_dsn: str, neo4j_uri: str) -> None:
    async with local_service(postgres_dsn, neo4j_uri, view_bytes=ENOUGH) as memory:
        token = (await memory.ingest([SAID, KNOWN])).consistency_token
        await answered(memory, QUESTION, token)
        warmed = await memory.warm()

        forgotten = await memory.forget(segment_ids=["t1"])
        after = await memory.retrieve(QUESTION)

    assert [(each.warm, each.reason) for each in warmed if each.part == "memory"] == [(True, "")]
    receipts = {each.store: each for each in forgotten.receipts}
    assert receipts["memory"].verified
    assert receipts["memory"].remaining_count == 0
    assert after.hits == ()
