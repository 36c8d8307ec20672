"""What each process remembers of a tenant: its names, and whether it has facts."""

from __future__ import annotations

import math

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.notifications import Channel, Notifications
from serving.adapters.postgres.words.known_names import UNCHECKED_S, KnownNames
from serving.adapters.postgres.writes.memory_store import PostgresMemoryStore
from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName, segment_id
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import write
from tests.support.builders import TENANT, fact, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres


async def test_a_name_committed_late_is_not_missed(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    async with postgres.database.transaction() as slow:
        await slow.execute("INSERT INTO entity SELECT id, 'slow', 'Slow' FROM tenant")
        await write(postgres, segment("b", entities=("Quick",)))
        during = dict(await postgres.store.known_names(TENANT))

    assert during == {"quick": "Quick"}
    assert await postgres.store.known_names(TENANT) == {"quick": "Quick", "slow": "Slow"}


@pytest.mark.parametrize(
    ("selector", "left"),
    [(Selector(items=(segment_id("a"),)), {"rome": "Rome"}), (Selector(everything=True), {})],
    ids=["items", "everything"],
)
async def test_names_changed_elsewhere_are_noticed_at_once(
    postgres: Postgres, postgres_dsn: str, selector: Selector, left: dict[str, str]
) -> None:
    async with Postgres(postgres_dsn) as other:
        await write(postgres, segment("a", entities=("Goa",)))
        before = dict(await other.store.known_names(TENANT))

        await write(postgres, segment("b", entities=("Rome",)))
        written = dict(await other.store.known_names(TENANT))
        await postgres.store.erase(TENANT, selector)

        assert before == {"goa": "Goa"}
        assert written == {"goa": "Goa", "rome": "Rome"}
        assert await other.store.known_names(TENANT) == left


async def test_memory_for_names_is_bounded(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.words.known_names.MAX_NAMES", 2)
    tenants = [TenantName(name) for name in "abc"]
    for tenant in tenants:
        await write(postgres, segment("a", entities=(f"Goa {tenant}", "Rome")), tenant=tenant)

    for tenant in tenants * 2:
        assert len(await postgres.store.known_names(tenant)) == 2


async def test_slow_name_load_is_cached_for_the_next_query(
    postgres: Postgres, postgres_dsn: str
) -> None:
    await write(postgres, segment("a", entities=("Melanie",)))
    async with Postgres(postgres_dsn, work_connections=1) as other:
        async with other.database.work():  # so that none is left to read with
            with pytest.raises(TimeoutError):
                await other.names.meant(TENANT, ["Melony"], Deadline.after(0.05))

        async with other.database.work():  # lent after it was lent to the reading
            corrected = await other.names.meant(TENANT, ["Melony"], Deadline.after(60))

    assert corrected == {"Melony": "Melanie"}


PLAIN = ["When", "did", "Melanie", "sail"]
"""Words that are names or stop words: none may stand for another name."""


async def meant(adapters: Postgres, *words: str) -> dict[str, str]:
    return await adapters.names.meant(TENANT, words, Deadline.after(60))


async def test_a_question_without_an_unknown_word_needs_no_connection(
    postgres: Postgres, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.words.known_names.UNCHECKED_S", math.inf)
    await write(postgres, segment("a", "We sail", entities=("Melanie", "Deborah")))
    async with Postgres(postgres_dsn, search_connections=1) as other:
        for _ in range(2):  # the first reads the names, the second the words that resemble one
            assert await meant(other, *PLAIN, "Deb") == {"Deb": "Deborah"}

        async def needs_no_connection() -> bool:
            # Names are stale once more when the connection that listens for changes is there.
            await meant(other, "Deb")
            async with other.database.search(Deadline.after(60)):  # the only one
                try:
                    return await other.names.meant(TENANT, PLAIN, Deadline.after(1)) == {}
                except TimeoutError:
                    return False

        await until_async(needs_no_connection)
        async with other.database.search(Deadline.after(60)):
            with pytest.raises(TimeoutError):
                await other.names.meant(TENANT, ["Deb"], Deadline.after(0.05))


async def test_announced_name_of_another_process_is_matched(
    postgres: Postgres, postgres_dsn: str
) -> None:
    async with Postgres(postgres_dsn) as other:
        await write(postgres, segment("a", entities=("Deborah",)))
        assert await meant(other, "Melony") == {}
        before = other.notifications.received([Channel.CHANGES])

        await write(postgres, segment("b", entities=("Melanie",)))
        await other.notifications.wait_beyond(before, [Channel.CHANGES], 10)

        assert await meant(other, "Melony") == {"Melony": "Melanie"}


async def test_token_finds_facts_before_their_announcement(postgres: Postgres) -> None:
    silence = Notifications(postgres.database)  # it is not opened, so it hears nothing
    names = KnownNames(postgres.database, silence)
    elsewhere = PostgresMemoryStore(postgres.database, silence, names)
    await write(postgres, segment("a"))
    before = await elsewhere.has_facts(TENANT, None, Deadline.after(5))

    receipt = await write(postgres, fact("f", "Ann", "sails", "Goa"))

    unheard = await elsewhere.has_facts(TENANT, None, Deadline.after(5))
    assert (before, unheard) == (False, False)
    assert await elsewhere.has_facts(TENANT, receipt.token, Deadline.after(5))


async def test_names_are_reread_without_announcements(postgres: Postgres) -> None:
    now_s = 0.0
    names = KnownNames(postgres.database, postgres.notifications, clock=lambda: now_s)
    await write(postgres, segment("a", entities=("Goa",)))
    assert names.current(TENANT) is None
    while names.current(TENANT) is None:  # until the announcement of the write has come
        await names.of_tenant(TENANT)
        now_s += UNCHECKED_S

    now_s += UNCHECKED_S + 0.1

    assert names.current(TENANT) is None
