"""Outages of PostgreSQL and recovery, failovers, and searches that end too late."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.adapters.postgres.connection.pool import MAX_WAITING, Database
from serving.adapters.postgres.connection.row_security import CallerConnection
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.desk.embedded_postgres.launcher import SETTINGS
from serving.desk.embedded_postgres.programs import (
    ENVIRONMENT,
    Account,
    find_binaries,
    reachable_binaries,
)
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, StoreUnavailableError
from serving.ports.index_engine import FeedLostError
from tests.fixtures.postgres import QUICK, pid_of
from tests.integration.postgres.log.following import MODEL, bootstrap, embed, run, scalar, write
from tests.integration.postgres.words.searching import search
from tests.support.builders import TENANT, ids, segment
from tests.support.disk import Disk
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.postgres


@pytest.fixture
def server(short_directory: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(short_directory / request.node.name[:40], settings=QUICK)
    yield server
    server.stop()


@pytest.fixture
async def adapters(server: EmbeddedPostgres) -> AsyncIterator[Postgres]:
    """Adapters of that server, after migration."""
    dsn = server.start()
    await migrate(dsn)
    async with Postgres(dsn) as opened:
        yield opened


async def test_call_without_postgresql_raises_a_store_error(
    adapters: Postgres, server: EmbeddedPostgres
) -> None:
    async def lead() -> None:
        async with adapters.change_log.leadership("graph", None):
            pass

    server.stop()

    assert not await adapters.store.ready()
    for call in (
        write(adapters, segment("a")),
        search(adapters.lexical, "Goa", within_s=2),
        adapters.change_log.next_batch("graph", None, 10),
        bootstrap(adapters),
        lead(),
        migrate(adapters.database.dsn),
    ):
        with pytest.raises(StoreUnavailableError):
            await call


async def test_adapters_open_before_postgresql_starts(server: EmbeddedPostgres) -> None:
    dsn = server.start()
    await migrate(dsn)
    server.stop()

    async with Postgres(dsn) as adapters:
        assert not await adapters.store.ready()
        server.start()

        await until_async(adapters.store.ready)
        await write(adapters, segment("a"))


async def test_calls_and_listening_go_on_after_a_restart(
    adapters: Postgres, server: EmbeddedPostgres
) -> None:
    await write(adapters, segment("a"))
    await adapters.change_log.wait(10)
    server.stop()
    server.start()

    found = await search(adapters.lexical, "Goa")  # the first call succeeds
    async with asyncio.timeout(120):
        await adapters.change_log.wait(20)  # until it listens again
        waiting = asyncio.create_task(adapters.change_log.wait(150))
        await write(adapters, segment("b"))
        await waiting

    assert [candidate.item for candidate in found] == ids("a")
    assert await adapters.store.count(TENANT, ids("a", "b")) == 2


async def test_counts_of_accesses_survive_an_outage(
    adapters: Postgres, server: EmbeddedPostgres
) -> None:
    await write(adapters, segment("a"))
    server.stop()
    adapters.access.record(TENANT, ids("a", "unknown"))
    with pytest.raises(StoreUnavailableError):
        await adapters.access.flush()
    adapters.access.record(TENANT, ids("a"))
    server.start()

    async def stored() -> bool:
        # The pool may still be waiting to connect again.
        with contextlib.suppress(StoreUnavailableError):
            return await run(adapters, "SELECT sum(shown) FROM access_count") == [(2,)]
        return False

    await until_async(stored)


async def test_a_crash_loses_nothing_that_was_acknowledged(short_directory: Path) -> None:
    server = EmbeddedPostgres(short_directory / "crash")
    with server as dsn:
        await migrate(dsn)
        async with Postgres(dsn) as adapters:
            await write(adapters, segment("a"))
            os.kill(pid_of(server.root), signal.SIGKILL)
            server.stop()
            server.start()

            assert await adapters.store.count(TENANT, ids("a")) == 1
            assert (await adapters.change_log.next_batch("embedding", MODEL, 10)).changes


async def test_slow_planned_search_leaves_its_connection_unchanged(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.connection.pool.SEARCH_TIMEOUT_MS", 60_000)
    async with Database(postgres_dsn, search_connections=1) as database:
        with pytest.raises(TimeoutError):
            async with database.planned_search(Deadline.after(0.05)) as connection:
                await connection.execute("SELECT pg_sleep(10)")

        async with database.search(Deadline.after(10)) as connection:
            assert await scalar(connection, "SHOW plan_cache_mode") == "force_generic_plan"
            assert not connection.info.transaction_status


async def test_the_server_ends_a_search_that_nobody_cancels(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.connection.pool.SEARCH_TIMEOUT_MS", 50)
    async with Database(postgres_dsn) as database:
        with pytest.raises(TimeoutError, match="statement"):
            async with database.search(Deadline.after(10)) as connection:
                await connection.execute("SELECT pg_sleep(10)")


async def test_busy_connections_are_a_timeout_and_no_outage(postgres_dsn: str) -> None:
    async with (
        Database(postgres_dsn, search_connections=1) as database,
        database.search(Deadline.after(10)),
    ):
        with pytest.raises(TimeoutError):
            async with database.search(Deadline.after(0.05)):
                pass


async def test_too_many_waiting_callers_are_rejected(postgres_dsn: str) -> None:
    async def ask(database: Database) -> None:
        async with database.search(Deadline.after(0.2)):
            pass

    async with (
        Database(postgres_dsn, search_connections=1) as database,
        database.search(Deadline.after(10)),
    ):
        calls = [ask(database) for _ in range(MAX_WAITING + 2)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert sum(isinstance(outcome, OverloadedError) for outcome in outcomes) == 2


MARK = "cancelled by its caller"
RUNNING = f"""
SELECT count(*) FROM pg_stat_activity
 WHERE state = 'active' AND query LIKE '%%{MARK}%%' AND pid <> pg_backend_pid()
"""


async def running(database: Database) -> int:
    async with database.work() as connection:
        return int(await scalar(connection, RUNNING))


async def test_cancelled_search_ends_and_returns_its_connection(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.connection.pool.SEARCH_TIMEOUT_MS", 60_000)
    async with Database(postgres_dsn, search_connections=1) as database:

        async def search() -> None:
            async with database.search(Deadline.after(60)) as connection:
                await connection.execute(f"SELECT pg_sleep(60) -- {MARK}")

        searching = asyncio.create_task(search())
        async with asyncio.timeout(120):
            while not await running(database):
                pass

        searching.cancel()
        await asyncio.wait([searching])

        assert searching.cancelled()
        assert await running(database) == 0
        async with database.search(Deadline.after(30)) as connection:
            await connection.execute("SELECT 1")


async def test_cancellation_during_return_keeps_the_connection(postgres_dsn: str) -> None:
    """As of a deadline, after that of the caller."""
    async with Database(postgres_dsn, search_connections=1) as database:
        pool = database._search._pool
        returning, go_on, return_it = asyncio.Event(), asyncio.Event(), pool.putconn

        async def return_slowly(connection: CallerConnection) -> None:
            returning.set()
            await go_on.wait()
            await return_it(connection)

        pool.putconn = return_slowly  # type: ignore[assignment, method-assign]
        searching = asyncio.create_task(search_once(database))
        await returning.wait()
        searching.cancel()
        await asyncio.wait([searching])
        go_on.set()

        await search_once(database)


async def search_once(database: Database) -> None:
    async with database.search(Deadline.after(30)) as connection:
        await connection.execute("SELECT 1")


@dataclass(frozen=True, slots=True)
class Standby:
    """A copy of a primary, which follows it."""

    root: Path
    primary: Path

    @property
    def _data(self) -> Path:
        return self.root / "pgdata"

    def run(self, program: str, *arguments: str) -> None:
        account = Account.of_server()
        binaries = reachable_binaries(find_binaries(), account, self.root / "binaries")
        with (self.root / "output.log").open("ab") as log:
            subprocess.run(
                [str(binaries / program), *arguments],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=ENVIRONMENT,
                cwd=self.root,
                **account.credentials(),
            )

    def copy(self) -> None:
        self.root.mkdir(mode=0o700)
        Account.of_server().own(self.root)
        host = str(self.primary / "run")
        self.run(
            "pg_basebackup", "-h", host, "-U", "postgres", "-D", str(self._data), "-R", "-cfast"
        )

    def start(self) -> None:
        settings = {**SETTINGS, **QUICK, "unix_socket_directories": str(self.root)}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self.run("pg_ctl", "-D", str(self._data), "-o", options, "-w", "start")

    def promote(self) -> None:
        self.run("pg_ctl", "-D", str(self._data), "-w", "promote")

    def stop(self) -> None:
        if (self._data / "postmaster.pid").exists():
            self.run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary and its standby, under one connection string."""

    primary: EmbeddedPostgres
    primary_dsn: str
    standby: Standby

    @property
    def dsn(self) -> str:
        hosts = f"{self.primary.root / 'run'},{self.standby.root}"
        return make_conninfo(self.primary_dsn, host=hosts, target_session_attrs="read-write")

    def replicate_each_commit(self) -> None:
        with psycopg.connect(self.primary_dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            until(lambda: connection.execute(REPLICATED).fetchone() == ("sync",))

    def catch_up(self) -> None:
        with psycopg.connect(self.primary_dsn, autocommit=True) as connection:
            until(lambda: connection.execute(BEHIND).fetchone() == (False,))

    def kill_primary(self) -> None:
        os.kill(pid_of(self.primary.root), signal.SIGKILL)


REPLICATED = "SELECT max(sync_state) FROM pg_stat_replication"
BEHIND = "SELECT max(replay_lsn) < pg_current_wal_lsn() FROM pg_stat_replication"


@pytest.fixture
def home(short_directory: Path) -> Path:
    home = Path(tempfile.mkdtemp(dir=short_directory, prefix="pair-"))
    home.chmod(0o755)
    return home


@pytest.fixture
async def pair(home: Path) -> AsyncIterator[Pair]:
    primary = EmbeddedPostgres(home / "primary", settings=QUICK)
    standby = Standby(home / "standby", primary.root)
    with primary as dsn:
        try:
            await migrate(dsn)
            standby.copy()
            standby.start()
            yield Pair(primary, dsn, standby)
        finally:
            standby.stop()
            # A killed server leaves shared memory, which its next start removes.
            primary.restart_if_dead()


async def test_acknowledged_writes_survive_a_failover(pair: Pair) -> None:
    pair.replicate_each_commit()
    async with Postgres(pair.dsn) as postgres:
        for number in range(10):
            await write(postgres, segment(f"{number}"))

        pair.kill_primary()
        pair.standby.promote()

        await until_async(postgres.store.ready)
        again = await write(postgres, *(segment(f"{number}") for number in range(10)))
        assert set(again.outcomes) == {"unchanged"}
        assert (await write(postgres, segment("new"))).outcomes == ["created"]
        assert len(await embed(postgres)) == 11


async def test_lost_transactions_hide_no_later_write(pair: Pair) -> None:
    """The new primary gives the ids of the lost transactions again."""
    async with Postgres(pair.dsn) as postgres:
        await write(postgres, segment("before", entities=["Ann"]))
        pair.catch_up()
        pair.standby.stop()
        for number in range(10):
            lost = await write(postgres, segment(f"{number}", entities=["Lost"]))
        await embed(postgres)
        position, _ = await bootstrap(postgres)
        assert set(await postgres.store.known_names(TENANT)) == {"ann", "lost"}

        pair.kill_primary()
        pair.standby.start()
        pair.standby.promote()

        await until_async(postgres.store.ready)
        assert await postgres.store.count(TENANT, ids("0", "9")) == 0
        new = await write(postgres, segment("new", entities=["Bob"]))
        assert max(new.token.xids) <= max(lost.token.xids), "the ids are not given again"
        with pytest.raises(FeedLostError):
            await postgres.feed.changes_since(position, MODEL)
        assert set(await postgres.store.known_names(TENANT)) == {"ann", "bob"}
        assert not await postgres.consistency.graph_has_seen(lost.token, Deadline.after(1))


LARGE_TEXT_WORDS = 10_000


@pytest.fixture
def disk(short_directory: Path) -> Iterator[Disk]:
    disk = Disk(short_directory / "disk")
    disk.mount()
    yield disk
    disk.unmount()


def large_text() -> str:
    return " ".join(f"{random.getrandbits(64):x}" for _ in range(LARGE_TEXT_WORDS))


async def write_until_refused(postgres: Postgres, acknowledged: list[str]) -> None:
    for number in count():
        await write(postgres, segment(f"{number}", large_text()))
        acknowledged.append(f"{number}")


async def test_a_full_disk_refuses_writes_loses_none_and_recovers(disk: Disk) -> None:
    with EmbeddedPostgres(disk.root / "server", settings=QUICK) as dsn:
        await migrate(dsn)
        async with Postgres(dsn) as postgres:
            await write(postgres, segment("before", large_text()))
            disk.fill()
            acknowledged = ["before"]

            with pytest.raises(StoreUnavailableError, match="DiskFull, SQLSTATE 53100"):
                await write_until_refused(postgres, acknowledged)

            refused = f"{len(acknowledged) - 1}"
            assert await postgres.store.count(TENANT, ids(*acknowledged)) == len(acknowledged)
            assert await postgres.store.count(TENANT, ids(refused)) == 0
            disk.free()
            again = await write(postgres, segment(refused, large_text()))
            assert again.outcomes == ["created"]


def take_all_connections(dsn: str, taken: contextlib.ExitStack) -> None:
    while True:
        taken.enter_context(psycopg.connect(dsn))


async def test_full_server_is_reported_and_calls_recover(short_directory: Path) -> None:
    settings = {**QUICK, "max_connections": "10"}
    with EmbeddedPostgres(short_directory / "connections", settings=settings) as dsn:
        await migrate(dsn)
        with contextlib.ExitStack() as others:
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                take_all_connections(dsn, others)
            async with Postgres(dsn, work_connections=1, search_connections=1) as postgres:
                assert not await postgres.store.ready()
                with pytest.raises(StoreUnavailableError, match="no connection could be made"):
                    await write(postgres, segment("a"))

                others.close()

                await until_async(postgres.store.ready)
                await write(postgres, segment("a"))
                assert await postgres.store.count(TENANT, ids("a")) == 1
