"""Words that an older schema made are made anew."""

from __future__ import annotations

import asyncio

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection import migrations
from serving.adapters.postgres.migration import migrate
from serving.adapters.postgres.words import rewriting
from serving.adapters.postgres.words.rewriting import rewrite_outdated_words
from serving.domain.items.records import TenantName
from serving.ports.memory_store import Batch
from tests.integration.postgres.log.following import (
    migrate_to_before,
    run,
    waits_for_lock,
    write,
)
from tests.integration.postgres.words.searching import ids_of, search
from tests.support.builders import TENANT, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres

SCRIPTS = migrations._scripts()


GERMAN = TenantName("german")
SAID = [
    segment("code", "Ticket MER-0014 is open.", title="Desk", speaker="Ann"),
    segment("tooth", "我下周三要去牙医那里拔智齿。"),
    segment("plain", "We sailed to Goa."),
]


@pytest.fixture
async def dsn(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A migrated database whose segments were stored before."""
    await migrate_to_before(empty_dsn, "outdated_words", monkeypatch)
    async with Postgres(empty_dsn) as older_program:
        await write(older_program, *SAID)
        await older_program.store.write(Batch(GERMAN, [segment("a", "Zwei Häuser")], "german"))
        assert await found(older_program, "0014") == []
    await migrate(empty_dsn)
    return empty_dsn


async def found(postgres: Postgres, text: str, tenant: str = TENANT) -> list[str]:
    return ids_of(await search(postgres.lexical, text, tenant=tenant))


async def test_stored_segments_get_their_words(dsn: str) -> None:
    assert await rewrite_outdated_words(dsn) == 4

    async with Postgres(dsn) as postgres:
        assert await found(postgres, "0014") == ["code"]
        assert await found(postgres, "智齿") == ["tooth"]
        assert await found(postgres, "Haus", GERMAN) == ["a"]
        rewritten = "SELECT tsv::text FROM segment WHERE id = 'code'"
        before = await run(postgres, rewritten)
        await write(postgres, segment("code", "Other."))
        await write(postgres, *SAID)
        assert await run(postgres, rewritten) == before
    assert await rewrite_outdated_words(dsn) == 0


async def test_interrupted_rewriting_goes_on(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "AT_ONCE", 1)
    async with Postgres(dsn) as postgres, postgres.database.transaction() as connection:
        # Holds the third segment, so that only the first two are rewritten.
        await connection.execute("SELECT FROM segment WHERE id = 'tooth' FOR UPDATE")
        work = asyncio.create_task(rewrite_outdated_words(dsn))
        await until_async(lambda: waits_for_lock(postgres))
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    assert await rewrite_outdated_words(dsn) == 2


async def test_erased_segments_are_passed_over(dsn: str) -> None:
    async with Postgres(dsn) as postgres:
        await run(postgres, "DELETE FROM segment")

    assert await rewrite_outdated_words(dsn) == 4


async def test_an_older_program_writes_words_until_they_are_rewritten(dsn: str) -> None:
    await rewrite_outdated_words(dsn)
    async with Postgres(dsn) as postgres:
        await run(postgres, _OLDER_WRITE, "new", "A phone: 0171-555-0142.")
        await run(postgres, _OLDER_WRITE, "plain", "We drove home.")

        assert await found(postgres, "phone") == ["new"]
        assert await found(postgres, "drove") == ["plain"]
        assert await found(postgres, "Goa") == []
        await rewrite_outdated_words(dsn)
        assert await found(postgres, "01715550142") == ["new"]
        assert await found(postgres, "drove") == ["plain"]


FUNCTION_WORDS = {
    "name": "My cousin Will sails.",
    "abbreviation": "I work in the IT department.",
    "question": "¿Quién es Ana?",
    "verb": "I will sail to Goa.",
    "plain": "We sailed to Goa.",
}
GROUPS = {
    "groups": "We moved to SW1A 2AA.",
    "lines": "The key is x9z\n33k.",
    "joined": "We moved to SW1A2AA.",
    "number": "Bus 12 leaves at 7.",
}


@pytest.mark.parametrize(
    ("within", "texts", "changed", "expected"),
    [
        (
            "quién",
            FUNCTION_WORDS,
            {"name", "abbreviation", "question"},
            {"Where is Will?": ["name"], "sail": ["name"]},
        ),
        ("SW1A", GROUPS, {"groups", "lines"}, {"x9z33k": ["lines"], "move": ["groups"]}),
    ],
    ids=["function words", "groups of a code"],
)
async def test_only_texts_with_changed_words_are_rewritten(
    empty_dsn: str,
    within: str,
    texts: dict[str, str],
    changed: set[str],
    expected: dict[str, list[str]],
) -> None:
    await migrate(empty_dsn)
    script = next(script for script in SCRIPTS if within in script)
    async with Postgres(empty_dsn) as postgres:
        await write(postgres, *(segment(name, texts[name]) for name in texts))
        for _ in range(2):
            await run(postgres, script)
        outdated = await run(postgres, "SELECT id FROM segment JOIN outdated_words USING (key)")
        assert {name for (name,) in outdated} == changed
        await run(postgres, "UPDATE segment SET tsv = '', dl = 0")
        await rewrite_outdated_words(empty_dsn)
        assert {each: await found(postgres, each) for each in expected} == expected


_OLDER_WRITE = """
INSERT INTO segment (tenant_id, id, text, title, kind, speaker, session, event_time, importance,
                     sensitive, labels, entities, entity, content_hash, text_hash, tags)
SELECT id, %s, %s, '', 'turn', '', '', now() - interval '1 year', 0.5, false, '{}', '{}', '', 'x',
       '', '{}'
  FROM tenant WHERE name = 'acme'
    ON CONFLICT (tenant_id, id) DO UPDATE SET text = excluded.text
"""
