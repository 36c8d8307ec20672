from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError
from serving.domain.items.records import ItemKind, TenantName
from serving.pipeline.index.vector_space import EmbeddedSearch, VectorLookup, VectorSpace
from serving.ports.embedding import Vector, VectorLike
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row
from tests.fakes.pipeline import FixedIndex
from tests.fakes.placed import DeafEmbedder
from tests.support.builders import TENANT, query, scope, segment
from tests.support.waiting import begin, cancel

GOA = "we sailed to goa"
WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 5)


class GatedEmbedder(FakeEmbedder):
    """Answers when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.cancelled = 0

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        vector = await super().embed_query(text, deadline)
        try:
            async with asyncio.timeout(deadline.remaining()):
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return vector


class RefusingEmbedder(GatedEmbedder):
    """Has no room, once."""

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        first = not self.queries
        vector = await super().embed_query(text, deadline)
        if first:
            raise OverloadedError("the embedder's queue")
        return vector


def searching(embedder: FakeEmbedder) -> EmbeddedSearch:
    return EmbeddedSearch(embedder, FixedIndex())


async def two_ask(
    search: EmbeddedSearch, embedder: GatedEmbedder
) -> list[asyncio.Task[VectorLike]]:
    together = [await begin(search.vector_of(TENANT, GOA, soon())) for _ in range(2)]
    await asked(embedder)
    return together


async def asked(embedder: GatedEmbedder, times: int = 1) -> None:
    async with asyncio.timeout(10):
        while len(embedder.queries) < times:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


def soon() -> Deadline:
    return Deadline.after(30)


async def test_equal_questions_are_embedded_once() -> None:
    embedder = GatedEmbedder()
    search = searching(embedder)
    together = await two_ask(search, embedder)

    embedder.gate.set()
    made = [*await asyncio.gather(*together), await search.vector_of(TENANT, GOA, soon())]

    assert embedder.queries == [GOA]
    assert all(np.array_equal(each, made[0]) for each in made)


async def test_response_time_reveals_no_query_of_another_tenant() -> None:
    embedder = FakeEmbedder()
    search = searching(embedder)

    await search.vector_of(TENANT, GOA, soon())
    await search.vector_of(TenantName("other"), GOA, soon())

    assert embedder.queries == [GOA, GOA]


async def test_tenants_asked_together_share_the_embedding() -> None:
    embedder = FakeEmbedder()
    space = VectorSpace.of(embedder, FixedIndex())
    first = query(GOA)

    for each in (first, first.of_tenant(TenantName("other"))):
        lookup = VectorLookup(each, space)
        await lookup.nearest(WantedNeighbours(ItemKind.SEGMENT, each.scope, 5), soon())

    assert embedder.queries == [GOA]


async def test_cancelled_caller_does_not_cancel_shared_embedding() -> None:
    embedder = GatedEmbedder()
    first, second = await two_ask(searching(embedder), embedder)

    await cancel(first)
    embedder.gate.set()

    assert len(await second)
    assert embedder.queries == [GOA]


async def test_caller_with_more_time_embeds_again() -> None:
    embedder = GatedEmbedder()
    search = searching(embedder)
    hasty = await begin(search.vector_of(TENANT, GOA, Deadline.after(0.01)))
    await asked(embedder)
    patient = await begin(search.vector_of(TENANT, GOA, soon()))

    with pytest.raises(TimeoutError):
        await hasty
    await asked(embedder, times=2)
    embedder.gate.set()

    assert len(await patient)


async def test_abandoned_question_is_not_embedded() -> None:
    embedder = GatedEmbedder()
    search = searching(embedder)
    for each in await two_ask(search, embedder):
        await cancel(each)

    again = await begin(search.vector_of(TENANT, GOA, soon()))
    await asked(embedder, times=2)
    embedder.gate.set()

    assert len(await again)
    assert embedder.cancelled == 1


async def test_error_reaches_only_the_waiting_callers() -> None:
    embedder = RefusingEmbedder()
    search = searching(embedder)
    together = await two_ask(search, embedder)
    embedder.gate.set()

    told = await asyncio.gather(*together, return_exceptions=True)

    assert [type(error) for error in told] == [OverloadedError] * 2
    assert len(await search.vector_of(TENANT, GOA, soon()))


async def test_the_last_questions_are_remembered_and_the_others_forgotten() -> None:
    embedder = FakeEmbedder()
    search = EmbeddedSearch(embedder, FixedIndex(), kept=2)

    for text in ["a", "b", "a", "c", "a", "b"]:
        await search.vector_of(TENANT, text, soon())

    assert embedder.queries == ["a", "b", "c", "b"]


class BatchEmbedder(FakeEmbedder):
    """Answers with a row of a batch, as an encoder does."""

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        row: Vector = np.tile(await super().embed_query(text, deadline), (50, 1))[7]
        return row


async def test_batch_of_a_remembered_row_is_released() -> None:
    search = searching(BatchEmbedder())
    row = await search.vector_of(TENANT, GOA, soon())

    kept = await search.vector_of(TENANT, GOA, soon())

    assert isinstance(kept, np.ndarray)
    assert kept.base is None
    assert np.array_equal(kept, row)


async def placed(**texts: str) -> tuple[FakeEmbedder, EngineIndex]:
    """An embedder, and an index of segments with these texts."""
    embedder, engine = FakeEmbedder(), InMemoryIndex()
    for id_, text in texts.items():
        [made] = await embedder.embed_documents([text])
        engine.apply([segment_row(segment(id_, text), *made.vectors)], [])
    return embedder, EngineIndex(engine)


async def test_search_reports_the_time_of_embedding() -> None:
    search = EmbeddedSearch(*await placed(goa=GOA, dog="the dog sleeps"))

    answer = await search.search(GOA, replace(WANTED, depth=1), soon())

    assert [candidate.item.id for candidate in answer.candidates] == ["goa"]
    assert answer.embedding_s > 0


class NotedSearch:
    """Notes the texts that it is asked, and takes three seconds by its own account."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def search(self, text: str, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        self.asked.append(text)
        return IndexAnswer([], epoch=7, embedding_s=3.0)


PARTS = (GOA, "the dog sleeps")


@pytest.mark.parametrize(
    ("vector", "parts", "asked", "epoch", "embedding_s"),
    [(None, (), [GOA], 7, 3.0), (None, PARTS, sorted(PARTS), 7, 3.0), ((1.0, 0.0), (), [], 1, 0.0)],
    ids=["text", "every question", "given vector"],
)
async def test_combined_space_receives_text_or_given_vector(
    vector: tuple[float, ...] | None,
    parts: tuple[str, ...],
    asked: list[str],
    epoch: int,
    embedding_s: float,
) -> None:
    semantic = NotedSearch()
    space = VectorSpace(DeafEmbedder(), FixedIndex(), semantic)
    lookup = VectorLookup(query(GOA, vector=vector), space, parts)

    answer = await lookup.nearest(WANTED, soon())

    assert sorted(semantic.asked) == asked
    assert (answer.epoch, lookup.embedding_s) == (epoch, embedding_s)


async def test_nearest_question_decides_the_cosine_of_hits() -> None:
    space = VectorSpace.of(*await placed(goa=PARTS[0], dog=PARTS[1], far="a red moon rose"))
    lookup = VectorLookup(query("? ".join(PARTS)), space, PARTS)

    answer = await lookup.nearest(replace(WANTED, depth=2), soon())

    assert {each.item.id: each.score for each in answer.candidates} == {
        "goa": pytest.approx(1.0, abs=1e-4),
        "dog": pytest.approx(1.0, abs=1e-4),
    }
