"""The projector over the log in PostgreSQL, and vectors of a turn with the turn before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.errors import StatementRejectedError
from serving.adapters.postgres.log.consistency import PostgresConsistency
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError
from serving.domain.items.records import Segment, TenantName, segment_id
from serving.domain.items.text import text_in_context
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
from serving.ports.memory_store import Batch, GivenVectors, Selector
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder, unit
from tests.integration.postgres.log.following import (
    MODEL,
    bootstrap,
    embed,
    embedding_tasks,
    run,
    save_vectors,
    write,
)
from tests.support.builders import NOON, TENANT, days, fact, ids, segment

pytestmark = pytest.mark.postgres


OTHER = TenantName("other")


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


@pytest.mark.parametrize("before", [[], [segment("a", "first")]], ids=["new", "embedded before"])
async def test_given_vector_is_stored_and_not_computed(
    postgres: Postgres, before: list[Segment]
) -> None:
    await write(postgres, *before)
    await projected(postgres, NotingEmbedder())
    segments = [segment("a", "first", importance=1.0), segment("b", "second")]
    await postgres.store.write(Batch(TENANT, segments, given=given(7, names="a")))
    embedder = NotingEmbedder()

    await projected(postgres, embedder)

    assert embedder.calls == [["second"]]
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


def turn(id_: str, day: int, **fields: object) -> Segment:
    """A turn of a session, said that many days after noon."""
    return segment(id_, f"text {id_}", session="s", event_time=NOON + days(day), **fields)


async def written(postgres: Postgres, *turns: Segment) -> None:
    await write(postgres, *list(turns))
    await embed(postgres)


async def texts_to_embed(postgres: Postgres) -> list[str]:
    return sorted(task.text for task in await embedding_tasks(postgres))


async def with_context(postgres: Postgres) -> str:
    """The segments that the index reads with a vector of their context."""
    _, rows = await bootstrap(postgres)
    return " ".join(sorted(item.id for (_, item), row in rows.items() if row.context is not None))


async def test_turn_is_embedded_with_the_turn_before(postgres: Postgres) -> None:
    alone = segment("alone", "text alone", event_time=NOON)
    await write(postgres, turn("a", 0), turn("b", 1), turn("c", 2), alone)

    texts = await texts_to_embed(postgres)
    await embed(postgres)

    pairs = ["text a text b", "text b text c"]
    assert texts == sorted(["text a", "text b", "text c", "text alone", *pairs])
    assert await with_context(postgres) == "b c"


async def test_turns_of_one_time_follow_as_stored(postgres: Postgres) -> None:
    await write(postgres, turn("c", 0), turn("a", 0))
    await write(postgres, turn("b", 0))

    texts = await texts_to_embed(postgres)

    assert texts == sorted(["text a", "text b", "text c", "text c text a", "text a text b"])


@pytest.mark.parametrize(
    ("reply", "is_context"),
    [
        ({"text": "Noted.", "speaker": "Helper"}, False),
        ({"text": "はい。", "speaker": "Helper"}, False),
        ({"text": "Noted?", "speaker": "Helper"}, True),
        ({"text": "Your size is 41, I keep that.", "speaker": "Helper"}, True),
        ({"text": "Noted.", "speaker": "Mel"}, True),
    ],
)
async def test_acknowledgement_by_another_is_no_context(
    postgres: Postgres, reply: dict[str, str], is_context: bool
) -> None:
    first = segment("a", "Size 41.", speaker="Mel", session="s")
    between = segment("b", session="s", event_time=NOON + days(1), **reply)
    await written(postgres, first, between)

    last = segment("c", "I lied, 42.", speaker="Mel", session="s", event_time=NOON + days(2))
    await write(postgres, last)

    context = between if is_context else first
    assert text_in_context(context, last) in await texts_to_embed(postgres)


async def test_turn_before_an_acknowledgement_renews_the_context(postgres: Postgres) -> None:
    noted = segment("b", "Noted.", speaker="Helper", session="s", event_time=NOON + days(1))
    last = segment("c", "I lied.", speaker="Mel", session="s", event_time=NOON + days(2))
    await written(postgres, noted, last)

    first = segment("a", "Size 41.", speaker="Mel", session="s")
    await write(postgres, first)

    assert text_in_context(first, last) in await texts_to_embed(postgres)


async def test_turn_in_between_renews_the_context_after_it(postgres: Postgres) -> None:
    await written(postgres, turn("a", 0), turn("c", 2))

    await write(postgres, turn("b", 1))

    assert await texts_to_embed(postgres) == ["text a text b", "text b", "text b text c"]


async def test_erased_turn_lives_on_in_no_context(postgres: Postgres) -> None:
    await written(postgres, turn("a", 0), turn("b", 1), turn("c", 2))
    position, _ = await bootstrap(postgres)

    await postgres.store.erase(TENANT, Selector(items=(segment_id("b"),)))

    delta = await postgres.feed.changes_since(position, MODEL)
    assert [(row.item.id, row.context) for row in delta.rows] == [("c", None)]
    assert await with_context(postgres) == ""
    assert await texts_to_embed(postgres) == ["text a text c"]


async def test_changed_turn_renews_the_context_after_it(postgres: Postgres) -> None:
    await written(postgres, turn("a", 0), turn("b", 1))

    await write(postgres, segment("a", "other", session="s"))

    assert await with_context(postgres) == ""
    assert await texts_to_embed(postgres) == ["other", "other text b"]


async def test_sensitive_turn_is_in_no_context(postgres: Postgres) -> None:
    await written(postgres, turn("a", 0), turn("b", 1), turn("c", 2))

    await written(postgres, turn("b", 1, sensitive=True))

    assert await with_context(postgres) == "c"
    of_hidden = (
        "SELECT FROM embedding JOIN segment ON segment.key = embedding.previous_key "
        "WHERE segment.sensitive"
    )
    assert await run(postgres, of_hidden) == []


async def test_context_of_a_sensitive_turn_is_rejected(postgres: Postgres) -> None:
    await written(postgres, turn("a", 0, sensitive=True), turn("b", 1))

    with pytest.raises(StatementRejectedError, match="23514"):
        await run(
            postgres,
            "UPDATE embedding SET previous_key = segment.key FROM segment WHERE sensitive; "
            "INSERT INTO embedding SELECT model_id, key + 100, -1, text_hash, vector, "
            "previous_key FROM embedding",
        )


async def test_turn_erased_meanwhile_gets_no_context(postgres: Postgres) -> None:
    await write(postgres, turn("a", 0), turn("b", 1))
    tasks = await embedding_tasks(postgres)
    await postgres.store.erase(TENANT, Selector(items=(segment_id("a"),)))

    await save_vectors(postgres, tasks)

    assert await with_context(postgres) == ""
