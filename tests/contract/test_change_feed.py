"""What every feed of changes does: in whatever order writers commit, nothing is lost."""

from __future__ import annotations

import random

import psycopg
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.domain.changes import ChangesPosition
from serving.domain.items.records import ItemId, TenantName, segment_id
from tests.fakes.change_feed import InMemoryChangeFeed
from tests.support.builders import OTHER, TENANT, ids

STEPS, WRITERS = 250, 4


class MemoryLog:
    """A feed in memory, and writers whose transactions a test begins and commits by number."""

    def __init__(self) -> None:
        self.feed = InMemoryChangeFeed()

    async def begin(self) -> int:
        return self.feed.begin()

    async def log(self, number: int, *items: ItemId, tenant: TenantName = TENANT) -> None:
        self.feed.log(number, *items, tenant=tenant, erased=True)

    async def commit(self, number: int) -> None:
        self.feed.commit(number)


class PostgresLog:
    """The same in PostgreSQL, which each transaction writes by a connection of its own."""

    def __init__(self, postgres: Postgres, dsn: str) -> None:
        self.feed = postgres.change_feed
        self._dsn = dsn
        self._writing: list[psycopg.AsyncConnection] = []
        self._keys: dict[ItemId, int] = {}

    async def begin(self) -> int:
        connection = await psycopg.AsyncConnection.connect(self._dsn)
        self._writing.append(connection)
        await connection.execute("SELECT pg_current_xact_id()")
        return len(self._writing) - 1

    async def log(self, number: int, *items: ItemId, tenant: TenantName = TENANT) -> None:
        for item in items:
            key = self._keys.setdefault(item, len(self._keys) + 1)
            await self._writing[number].execute(
                "INSERT INTO change_log (tenant_id, key, kind, op, erased_tenant, erased_id)"
                " VALUES (1, %s, %s, 'erased', %s, %s)",
                [key, item.kind, tenant, item.id],
            )

    async def commit(self, number: int) -> None:
        await self._writing[number].commit()
        await self._writing[number].close()


Log = MemoryLog | PostgresLog


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def log(request: pytest.FixtureRequest) -> Log:
    if request.param == "memory":
        return MemoryLog()
    return PostgresLog(request.getfixturevalue("postgres"), request.getfixturevalue("postgres_dsn"))


async def read(
    log: Log, position: ChangesPosition, limit: int = 100
) -> tuple[str, ChangesPosition]:
    """The ids of what is read, in their order, and the position after them."""
    found = await log.feed.read(TENANT, position, limit)
    return " ".join(change.item.id for change in found.changes), found.position


async def written(log: Log, *items: ItemId, tenant: TenantName = TENANT) -> None:
    number = await log.begin()
    await log.log(number, *items, tenant=tenant)
    await log.commit(number)


async def test_changes_since_a_position_come_in_order(log: Log) -> None:
    await written(log, *ids("before"))
    position = await log.feed.now()
    await written(log, *ids("a", "b"))
    await written(log, *ids("theirs"), tenant=OTHER)
    await written(log, *ids("c"))

    first, position = await read(log, position)
    again, position = await read(log, position)

    assert (first, again) == ("a b c", "")


async def test_transaction_committed_late_is_not_lost(log: Log) -> None:
    position = await log.feed.now()
    slow = await log.begin()
    await log.log(slow, *ids("slow"))
    await written(log, *ids("quick"))

    before, position = await read(log, position)
    await log.commit(slow)
    after, position = await read(log, position)

    assert (before, after) == ("quick", "slow")
    assert (await read(log, position))[0] == ""


async def test_reading_goes_on_within_a_transaction(log: Log) -> None:
    position = await log.feed.now()
    late = await log.begin()
    await written(log, *ids("a", "b", "c", "d"))

    begun = await log.feed.read(TENANT, position, 2)
    await log.log(late, *ids("x", "y", "z"))
    await log.commit(late)
    rest, end = await read(log, begun.position, 4)
    last, end = await read(log, end)

    assert [change.item.id for change in begun.changes] == ["a", "b"]
    assert (rest, last) == ("x y z c", "d")
    assert (await read(log, begun.changes[0].after))[0] == "x y z b c d"
    assert (await read(log, end))[0] == ""


async def test_last_change_alone_counts_of_an_item(log: Log) -> None:
    position = await log.feed.now()
    await written(log, *ids("a"))
    await written(log, *ids("b", "a"))
    await written(log, *ids("b"))

    assert (await read(log, position))[0] == "a b"


async def test_change_logged_first_and_committed_last_is_read(log: Log) -> None:
    position = await log.feed.now()
    slow = await log.begin()
    await log.log(slow, *ids("a"))
    await written(log, *ids("a"))

    before, position = await read(log, position)
    await log.commit(slow)

    assert (before, (await read(log, position))[0]) == ("a", "a")


async def test_change_committed_after_a_begun_transaction_is_read(log: Log) -> None:
    position = await log.feed.now()
    slow = await log.begin()
    await log.log(slow, *ids("a"))
    await written(log, *ids("a", "b"))

    before, position = await read(log, position, 1)
    await log.commit(slow)

    assert (before, (await read(log, position))[0]) == ("a", "a b")


@pytest.mark.parametrize("seed", range(3))
async def test_killed_reader_loses_and_repeats_nothing(log: Log, seed: int) -> None:
    # Its decisions are the same in every run.
    decide = random.Random(seed)
    position, open_, logged, seen = await log.feed.now(), list[int](), 0, list[str]()
    for step in range(STEPS + WRITERS + 2):
        if step >= STEPS and open_:
            await log.commit(open_.pop())
        elif decide.random() < 0.3 and len(open_) < WRITERS:
            open_.append(await log.begin())
        elif decide.random() < 0.6 and open_:
            many = decide.randint(1, 4)
            items = [segment_id(f"i{logged + number}") for number in range(many)]
            await log.log(decide.choice(open_), *items)
            logged += many
        elif decide.random() < 0.5 and open_:
            await log.commit(open_.pop(decide.randrange(len(open_))))
        found = await log.feed.read(TENANT, position, decide.randint(1, 3) if step < STEPS else 999)
        # It ends after some of the changes, and goes on from the last token that it has.
        kept = decide.randint(0, len(found.changes)) if step < STEPS else len(found.changes)
        if kept:
            position = found.changes[kept - 1].after
        if kept == len(found.changes):
            position = found.position
        position = ChangesPosition.parse(str(position))
        seen += [change.item.id for change in found.changes[:kept]]

    assert not open_
    assert len(seen) == len(set(seen)) == logged
