"""Vectors of a turn together with the turn before it, in PostgreSQL."""

from __future__ import annotations

import numpy as np
import psycopg
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.domain.items.records import Segment, segment_id
from serving.ports.memory_store import Batch, Selector
from tests.integration.postgres.log.following import MODEL, bootstrap, embed
from tests.support.builders import NOON, TENANT, batch_of, days, segment

pytestmark = pytest.mark.postgres


def turn(id_: str, day: int, **fields: object) -> Segment:
    """A turn of a session, said that many days after noon."""
    return segment(id_, f"text {id_}", session="s", event_time=NOON + days(day), **fields)


async def written(postgres: Postgres, *turns: Segment) -> None:
    await postgres.store.write(Batch(TENANT, list(turns)))
    await embed(postgres)


async def with_context(postgres: Postgres) -> str:
    """The segments that the index reads with a vector of their context."""
    _, rows = await bootstrap(postgres)
    return " ".join(sorted(item.id for (_, item), row in rows.items() if row.context is not None))


async def texts_to_embed(postgres: Postgres) -> list[str]:
    batch = await postgres.change_log.next_batch("embedding", MODEL, 100)
    return [task.text for task in await postgres.change_log.embedding_tasks(batch.changes, MODEL)]


async def test_turn_is_embedded_with_the_turn_before(postgres: Postgres) -> None:
    alone = segment("alone", "text alone", event_time=NOON)
    await postgres.store.write(batch_of(turn("a", 0), turn("b", 1), turn("c", 2), alone))

    texts = await texts_to_embed(postgres)
    await embed(postgres)

    assert sorted(texts) == [
        *("text a", "text a text b", "text alone", "text b", "text b text c", "text c")
    ]
    assert await with_context(postgres) == "b c"


async def test_turn_in_between_renews_the_context_after_it(postgres: Postgres) -> None:
    await written(postgres, turn("a", 0), turn("c", 2))

    await postgres.store.write(batch_of(turn("b", 1)))

    assert sorted(await texts_to_embed(postgres)) == ["text a text b", "text b", "text b text c"]


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

    await postgres.store.write(batch_of(segment("a", "other", session="s")))

    assert await with_context(postgres) == ""
    assert sorted(await texts_to_embed(postgres)) == ["other", "other text b"]


async def test_sensitive_turn_is_in_no_context(postgres: Postgres) -> None:
    await written(postgres, turn("a", 0), turn("b", 1), turn("c", 2))

    await written(postgres, turn("b", 1, sensitive=True))

    assert await with_context(postgres) == "c"
    async with postgres.database.work() as connection:
        cursor = await connection.execute(
            "SELECT count(*) FROM embedding JOIN segment ON segment.key = embedding.previous_key "
            "WHERE segment.sensitive"
        )
        assert await cursor.fetchone() == (0,)


async def test_context_of_a_sensitive_turn_is_rejected(postgres: Postgres) -> None:
    await written(postgres, turn("a", 0, sensitive=True), turn("b", 1))

    async with postgres.database.work() as connection:
        with pytest.raises(psycopg.errors.CheckViolation):
            await connection.execute(
                "UPDATE embedding SET previous_key = segment.key FROM segment WHERE sensitive; "
                "INSERT INTO embedding SELECT model_id, key + 100, -1, text_hash, vector, "
                "previous_key FROM embedding"
            )


async def test_turn_erased_meanwhile_gets_no_context(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(turn("a", 0), turn("b", 1)))
    log = postgres.change_log
    async with log.leadership("embedding", MODEL):
        batch = await log.next_batch("embedding", MODEL, 10)
        tasks = await log.embedding_tasks(batch.changes, MODEL)
        await postgres.store.erase(TENANT, Selector(items=(segment_id("a"),)))

        await log.save_embeddings(
            MODEL, [(task, np.eye(4, dtype=np.float32)[:1]) for task in tasks]
        )

    assert await with_context(postgres) == ""
