"""The projector over the log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.log.consistency import PostgresConsistency
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError
from serving.domain.items.records import Segment, TenantName
from serving.pipeline.writes.projector import (
    BATCH_CHANGES,
    EMBEDDING_CHUNK,
    EmbeddingWork,
    GraphWork,
    Projector,
)
from serving.ports.change_log import Projection
from serving.ports.embedding import Embedding
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import Batch, GivenVectors
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder, unit
from tests.integration.postgres.log.following import bootstrap, run, write
from tests.support.builders import TENANT, fact, ids, segment

OTHER = TenantName("other")

pytestmark = pytest.mark.postgres


class InterruptedEmbedder(FakeEmbedder):
    """An embedder during whose work the next of the named segments is written."""

    def __init__(self, postgres: Postgres, meanwhile: str) -> None:
        super().__init__()
        self._postgres = postgres
        self._meanwhile = meanwhile.split()

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        if self._meanwhile:
            await write(self._postgres, segment(self._meanwhile.pop(0)))
        return await super().embed_documents(texts)


@pytest.mark.parametrize(
    ("stored", "meanwhile", "expected"),
    [
        ([], "", [("", True)]),
        ([segment("a")], "b", [("a", False), ("a b", True)]),
        ([segment("a")], "b c d", [("a", False), ("a b", True), ("a b c", True)]),
    ],
    ids=["no row", "writes during its backlog", "continuous writes"],
)
async def test_model_is_complete_once_its_backlog_is_embedded(
    postgres: Postgres, stored: list[Segment], meanwhile: str, expected: list[tuple[str, bool]]
) -> None:
    await write(postgres, *stored)
    embedder = InterruptedEmbedder(postgres, meanwhile)
    projector = Projector(postgres.change_log, EmbeddingWork(postgres.change_log, embedder))
    after_each: list[tuple[str, bool]] = []

    async with postgres.change_log.leadership("embedding", FAKE_MODEL):
        while len(after_each) < len(expected):
            await projector.step(FAKE_MODEL)
            position, rows = await bootstrap(postgres, FAKE_MODEL)
            names = " ".join(sorted(item.id for _, item in rows))
            after_each.append((names, position.complete))

    assert after_each == expected


class NotingEmbedder(FakeEmbedder):
    """An embedder that notes the texts of each call; it fails on one text, or is busy."""

    def __init__(self, bad: str = "", limit: int = 1000) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self.limit = limit
        self._bad = bad

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        if len(self.calls) == self.limit:
            raise OverloadedError("the API", 60.0)
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
    await write(postgres, segment("a", "first"))
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
    await write(postgres, segment("a", "second"))
    embedder = NotingEmbedder()

    await projected(postgres, embedder)

    assert embedder.calls == [["second"]]


async def test_a_sensitive_segment_has_no_vector_whoever_gives_one(postgres: Postgres) -> None:
    await postgres.store.write(
        Batch(TENANT, [segment("a", sensitive=True)], given=given(7, names="a"))
    )

    assert await run(postgres, "SELECT FROM embedding") == []


async def test_backlog_of_a_tenant_does_not_stall_another(postgres: Postgres) -> None:
    backlog = [segment(f"a{number}", f"text {number}") for number in range(5 * EMBEDDING_CHUNK)]
    await write(postgres, *backlog)
    await write(postgres, segment("b1", "first"), segment("b2", "second"), tenant=OTHER)
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
    backlog = [f"a{number}" for number in range(3 * BATCH_CHANGES)]
    for start in range(0, len(backlog), BATCH_CHANGES):
        await write(postgres, *map(segment, backlog[start : start + BATCH_CHANGES]))
    await write(postgres, segment("b1"), segment("b2"), tenant=OTHER)
    graph = NotingGraph()
    projector = Projector(postgres.change_log, GraphWork(postgres.change_log, graph))

    async with postgres.change_log.leadership("graph", None):
        while await projector.step(None):
            pass

    assert {"b1", "b2"} <= set(graph.calls[0])
    applied = sorted(name for call in graph.calls for name in call)
    assert applied == sorted([*backlog, "b1", "b2"]), "each is applied once"


async def test_unembeddable_row_does_not_hold_its_turn(postgres: Postgres) -> None:
    backlog = [segment(f"a{number}", f"text {number}") for number in range(3 * EMBEDDING_CHUNK)]
    await write(postgres, *backlog)
    await write(postgres, segment("b1", "poison"), tenant=OTHER)
    embedder = NotingEmbedder("poison")

    await projected(postgres, embedder)

    alone = [call for call in embedder.calls if len(call) == 1 and "poison" in call[0]]
    assert len(alone) <= 2
    assert len(await postgres.catalog.dead_letters(OTHER, 10)) == 1


async def test_rows_embedded_before_an_overload_are_kept(postgres: Postgres) -> None:
    rows = [segment("a", "first"), segment("b", "second"), segment("bad", "poison")]
    await write(postgres, *rows)
    embedder = NotingEmbedder("poison", limit=2)  # all together, and one of them alone

    with pytest.raises(OverloadedError):
        await projected(postgres, embedder)
    embedder.limit = 1000
    await projected(postgres, embedder)

    alone = [text for call in embedder.calls if len(call) == 1 for text in call]
    assert sorted(alone) == ["first", "poison", "second"]
    assert set(await vectors(postgres)) == {"a", "b"}


async def test_rows_waiting_for_projection_are_counted_by_tenant(postgres: Postgres) -> None:
    async def waiting(tenant: TenantName) -> Mapping[Projection, int]:
        anew = PostgresConsistency(postgres.database, postgres.notifications)
        return await anew.pending_counts(tenant, Deadline.after(60))

    hidden = segment("a", sensitive=True)
    resting_on_it = fact("f", "Nora", "has PIN", "28", evidence=("a",))
    await write(postgres, hidden, resting_on_it, segment("b"), segment("c"))
    await write(postgres, segment("d"), tenant=OTHER)

    assert await waiting(TENANT) == {"embedding": 2, "graph": 4}, "none is sensitive"
    assert await waiting(OTHER) == {"embedding": 1, "graph": 1}
    await projected(postgres, NotingEmbedder())
    assert await waiting(TENANT) == {"graph": 4}
