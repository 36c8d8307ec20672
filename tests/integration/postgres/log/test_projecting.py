"""The projector over the log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from serving.adapters.postgres.assembly import Postgres
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError
from serving.domain.items.records import TenantName
from serving.pipeline.writes.projector import (
    BATCH_CHANGES,
    EMBEDDING_CHUNK,
    EmbeddingWork,
    GraphWork,
    Projector,
)
from serving.ports.embedding import Vectors
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import Batch, GivenVectors
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder, unit
from tests.integration.postgres.log.following import bootstrap, scalar
from tests.support.builders import TENANT, batch_of, fact, ids, segment

OTHER = TenantName("other")

pytestmark = pytest.mark.postgres


class InterruptedEmbedder(FakeEmbedder):
    """An embedder during whose work the next of the named segments is written."""

    def __init__(self, postgres: Postgres, meanwhile: str) -> None:
        super().__init__()
        self._postgres = postgres
        self._meanwhile = meanwhile.split()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        if self._meanwhile:
            await self._postgres.store.write(batch_of(segment(self._meanwhile.pop(0))))
        return await super().embed_documents(texts)


async def steps(postgres: Postgres, count: int, meanwhile: str) -> list[tuple[str, bool]]:
    """The items with vectors after each step, and whether the model is marked complete."""
    embedder = InterruptedEmbedder(postgres, meanwhile)
    projector = Projector(postgres.change_log, EmbeddingWork(postgres.change_log, embedder))
    after_each: list[tuple[str, bool]] = []
    async with postgres.change_log.leadership("embedding", FAKE_MODEL):
        for _ in range(count):
            await projector.step(FAKE_MODEL)
            position, rows = await bootstrap(postgres, FAKE_MODEL)
            names = " ".join(sorted(item.id for _, item in rows))
            after_each.append((names, position.complete))
    return after_each


async def test_model_is_complete_after_writes_during_its_backlog(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))

    after_each = await steps(postgres, 2, meanwhile="b")

    assert after_each == [("a", False), ("a b", True)]


async def test_a_model_without_a_row_is_complete_at_once(postgres: Postgres) -> None:
    assert await steps(postgres, 1, meanwhile="") == [("", True)]


async def test_continuous_writes_do_not_delay_a_complete_model(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))

    after_each = await steps(postgres, 3, meanwhile="b c d")

    assert after_each == [("a", False), ("a b", True), ("a b c", True)]


class NotingEmbedder(FakeEmbedder):
    """An embedder that notes the texts of each call, and fails on one text."""

    def __init__(self, bad: str = "") -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self._bad = bad

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        self.calls.append(list(texts))
        if self._bad and any(self._bad in text for text in texts):
            raise ValueError("cannot be embedded")
        return await super().embed_documents(texts)


async def projected(postgres: Postgres, embedder: NotingEmbedder) -> None:
    projector = Projector(postgres.change_log, EmbeddingWork(postgres.change_log, embedder))
    async with postgres.change_log.leadership("embedding", FAKE_MODEL):
        while await projector.step(FAKE_MODEL):
            pass


def given(*seeds: int, names: str) -> GivenVectors:
    """Each of the named segments with the direction of a seed."""
    return GivenVectors(FAKE_MODEL, dict(zip(ids(names), map(unit, seeds), strict=True)))


async def vectors(postgres: Postgres) -> dict[str, NDArray[np.float16]]:
    """The vectors that the index reads, by segment."""
    _, rows = await bootstrap(postgres, FAKE_MODEL)
    return {item.id: row.vectors for (_, item), row in rows.items()}


async def test_given_vector_is_stored_and_not_computed(postgres: Postgres) -> None:
    segments = [segment("a", "first"), segment("b", "second")]
    await postgres.store.write(Batch(TENANT, segments, given=given(7, names="a")))
    embedder = NotingEmbedder()

    await projected(postgres, embedder)

    assert embedder.calls == [["second"]]
    assert (await vectors(postgres))["a"] == pytest.approx(unit(7)[np.newaxis], abs=1e-3)


async def test_a_given_vector_replaces_the_one_before_it(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a", "first")))
    await projected(postgres, NotingEmbedder())
    embedder = NotingEmbedder()

    await postgres.store.write(
        Batch(TENANT, [segment("a", "first", importance=1.0)], given=given(7, names="a"))
    )
    await projected(postgres, embedder)

    assert embedder.calls == []
    assert (await vectors(postgres))["a"] == pytest.approx(unit(7)[np.newaxis], abs=1e-3)


async def test_given_vector_goes_with_its_text(postgres: Postgres) -> None:
    await postgres.store.write(Batch(TENANT, [segment("a", "first")], given=given(7, names="a")))
    await postgres.store.write(batch_of(segment("a", "second")))
    embedder = NotingEmbedder()

    await projected(postgres, embedder)

    assert embedder.calls == [["second"]]


async def test_a_sensitive_segment_has_no_vector_whoever_gives_one(postgres: Postgres) -> None:
    await postgres.store.write(
        Batch(TENANT, [segment("a", sensitive=True)], given=given(7, names="a"))
    )

    async with postgres.database.work() as connection:
        assert await scalar(connection, "SELECT count(*) FROM embedding") == 0


async def test_backlog_of_a_tenant_does_not_stall_another(postgres: Postgres) -> None:
    backlog = [segment(f"a{number}", f"text {number}") for number in range(5 * EMBEDDING_CHUNK)]
    await postgres.store.write(Batch(TENANT, backlog))
    await postgres.store.write(Batch(OTHER, [segment("b1", "first"), segment("b2", "second")]))
    embedder = NotingEmbedder()

    await projected(postgres, embedder)

    early = {text for call in embedder.calls[:2] for text in call}
    assert any("first" in text for text in early)
    assert any("second" in text for text in early)
    every = [text for call in embedder.calls for text in call]
    assert len(every) == len(set(every)) == len(backlog) + 2, "none is embedded twice"


class NotingGraph(InMemoryGraph):
    """A graph that notes the segments of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []

    async def apply(self, changes: GraphChanges) -> None:
        self.calls.append([each.id for _, each in changes.segments])
        await super().apply(changes)


async def test_backlog_does_not_stall_the_graph_of_another(postgres: Postgres) -> None:
    for start in range(0, 3 * BATCH_CHANGES, BATCH_CHANGES):
        numbers = range(start, start + BATCH_CHANGES)
        await postgres.store.write(batch_of(*(segment(f"a{number}") for number in numbers)))
    await postgres.store.write(Batch(OTHER, [segment("b1"), segment("b2")]))
    graph = NotingGraph()
    projector = Projector(postgres.change_log, GraphWork(postgres.change_log, graph))

    async with postgres.change_log.leadership("graph", None):
        while await projector.step(None):
            pass

    assert {"b1", "b2"} <= set(graph.calls[0])
    assert sorted(name for call in graph.calls for name in call) == sorted(
        [*(f"a{number}" for number in range(3 * BATCH_CHANGES)), "b1", "b2"]
    ), "each is applied once"


async def test_unembeddable_row_does_not_hold_its_turn(postgres: Postgres) -> None:
    backlog = [segment(f"a{number}", f"text {number}") for number in range(3 * EMBEDDING_CHUNK)]
    await postgres.store.write(Batch(TENANT, backlog))
    await postgres.store.write(Batch(OTHER, [segment("b1", "poison")]))
    embedder = NotingEmbedder("poison")

    await projected(postgres, embedder)

    alone = [call for call in embedder.calls if len(call) == 1 and "poison" in call[0]]
    assert len(alone) <= 2
    assert len(await postgres.catalog.dead_letters(OTHER, 10)) == 1


class LimitedEmbedder(NotingEmbedder):
    """An embedder that answers a number of calls, and is busy then; it fails on one text."""

    def __init__(self, bad: str, limit: int) -> None:
        super().__init__(bad)
        self.limit = limit

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        if not self.limit:
            raise OverloadedError("the API", 60.0)
        self.limit -= 1
        return await super().embed_documents(texts)


async def test_rows_embedded_before_an_overload_are_kept(postgres: Postgres) -> None:
    rows = [segment("a", "first"), segment("b", "second"), segment("bad", "poison")]
    await postgres.store.write(Batch(TENANT, rows))
    embedder = LimitedEmbedder("poison", limit=2)  # all together, and one of them alone

    with pytest.raises(OverloadedError):
        await projected(postgres, embedder)
    embedder.limit = 9
    await projected(postgres, embedder)

    alone = [text for call in embedder.calls if len(call) == 1 for text in call]
    assert sorted(alone) == ["first", "poison", "second"]
    assert set(await vectors(postgres)) == {"a", "b"}


async def test_rows_waiting_for_projection_are_counted_by_tenant(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a"), segment("b")))
    await postgres.store.write(Batch(OTHER, [segment("c")]))

    waiting = await postgres.consistency.pending_counts(OTHER, Deadline.after(60))
    same = await postgres.consistency.pending_counts(TENANT, Deadline.after(60))

    assert (waiting, same) == ({"embedding": 1, "graph": 1}, {"embedding": 2, "graph": 2})


async def test_sensitive_rows_do_not_wait_for_embedding(postgres: Postgres) -> None:
    hidden = segment("a", sensitive=True)
    resting_on_it = fact("f", "Nora", "has PIN", "28", evidence=("a",))
    await postgres.store.write(batch_of(hidden, resting_on_it, segment("b")))

    waiting = await postgres.consistency.pending_counts(TENANT, Deadline.after(60))

    assert waiting["embedding"] == 1


async def test_embedded_rows_do_not_wait_for_embedding(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a"), segment("b")))
    await projected(postgres, NotingEmbedder())

    assert await postgres.consistency.pending_counts(TENANT, Deadline.after(60)) == {"graph": 2}
