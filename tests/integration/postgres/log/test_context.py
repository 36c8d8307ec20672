"""Vectors of a turn together with the turn before it, in PostgreSQL."""

from __future__ import annotations

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.errors import StatementRejectedError
from serving.domain.items.records import Segment, segment_id
from serving.domain.items.text import text_in_context
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import (
    MODEL,
    bootstrap,
    embed,
    embedding_tasks,
    run,
    save_vectors,
    write,
)
from tests.support.builders import NOON, TENANT, days, segment

pytestmark = pytest.mark.postgres


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
