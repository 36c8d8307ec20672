"""The stores and replicas of a service under test, and the faults that they can have."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import psutil
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.harness.processes import role_of
from bench.speed.faults.relay import Endpoint, Relay
from serving.config.settings import Settings
from serving.desk.embedded_neo4j import EmbeddedNeo4j
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.desk.embedded_postgres.postmaster import SOCKET_NAME, ProcessTable


class Fault(StrEnum):
    """What can happen to a store or a replica."""

    SLOWER = "50 ms slower"
    MUCH_SLOWER = "2 s slower"
    HUNG = "hung"
    REFUSED = "connections refused"
    KILLED = "killed and restarted"


RESTARTED_WITHIN_S = 60.0
POLL_S = 0.1

DELAYS_S = {Fault.SLOWER: 0.05, Fault.MUCH_SLOWER: 2.0}


class Store(Protocol):
    """A store that the benchmark starts, and that it may kill."""

    name: str

    def start(self) -> Endpoint:
        """Starts it, also after it was killed; returns where it listens."""
        ...

    def processes(self) -> list[int]:
        """Its processes, the one that has started the others first."""
        ...


class PostgresStore:
    """An embedded PostgreSQL."""

    name = "postgres"

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server

    def start(self) -> Endpoint:
        """Starts it."""
        self._server.stop()  # forgets a server that was killed
        dsn = self._server.start()
        return Endpoint(path=Path(str(conninfo_to_dict(dsn)["host"])) / SOCKET_NAME)

    def processes(self) -> list[int]:
        """The postmaster and its backends."""
        return _with_children(ProcessTable(self._server.data).find())


class Neo4jStore:
    """An embedded Neo4j."""

    name = "neo4j"

    def __init__(self, server: EmbeddedNeo4j) -> None:
        self._server = server
        self._uri = ""

    def start(self) -> Endpoint:
        """Starts it; after it was killed, on the port that it had."""
        if self._uri:
            self._server.restart_if_dead()
        else:
            self._uri = self._server.start()
        port = urlsplit(self._uri).port
        assert port is not None, f"{self._uri} names a port; this is a bug"
        return Endpoint(port=port)

    def processes(self) -> list[int]:
        """Its JVM."""
        return _with_children(self._server.pid)


class Dependency:
    """A store behind a relay."""

    faults = frozenset(Fault)

    def __init__(self, store: Store, relay: Relay) -> None:
        self.name = store.name
        self._store = store
        self._relay = relay

    async def begin(self, fault: Fault) -> None:
        """Lets a fault begin."""
        match fault:
            case Fault.SLOWER | Fault.MUCH_SLOWER:
                self._relay.delay_s = DELAYS_S[fault]
            case Fault.HUNG:
                self._signal(signal.SIGSTOP)
            case Fault.REFUSED:
                await self._relay.close()
            case Fault.KILLED:
                self._signal(signal.SIGKILL)

    async def end(self, fault: Fault) -> None:
        """Ends it; returns when the store is back."""
        match fault:
            case Fault.SLOWER | Fault.MUCH_SLOWER:
                self._relay.delay_s = 0.0
            case Fault.HUNG:
                self._signal(signal.SIGCONT)
            case Fault.REFUSED:
                await self._relay.open()
            case Fault.KILLED:
                await asyncio.to_thread(self._store.start)

    def _signal(self, number: signal.Signals) -> None:
        _signal_all(self._store.processes(), number)


class Replica:
    """The only replica of a deployment, which Serve starts again after it was killed.

    Args:
        name: Of the dependency.
        deployment: Its name in Serve.
        service: The first process of the service.
    """

    faults = frozenset({Fault.HUNG, Fault.KILLED})

    def __init__(self, name: str, deployment: str, service: int) -> None:
        self.name = name
        self._role = f"replica {deployment}"
        self._service = psutil.Process(service)
        self._killed: list[int] = []

    async def begin(self, fault: Fault) -> None:
        """Lets a fault begin."""
        pids = self._pids()
        if not pids:
            raise RuntimeError(f"there is no process of the {self._role}")
        if fault is Fault.KILLED:
            self._killed = pids
        _signal_all(pids, signal.SIGKILL if fault is Fault.KILLED else signal.SIGSTOP)

    async def end(self, fault: Fault) -> None:
        """Ends it; returns when there is a process again, which may not be ready yet."""
        if fault is Fault.HUNG:
            _signal_all(self._pids(), signal.SIGCONT)
            return
        async with asyncio.timeout(RESTARTED_WITHIN_S):
            await self._started_again()

    async def _started_again(self) -> None:
        while True:
            if set(self._pids()) - set(self._killed):
                return
            await asyncio.sleep(POLL_S)

    def _pids(self) -> list[int]:
        found = []
        for process in self._service.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if role_of(process.name(), process.cmdline()) == self._role:
                    found.append(process.pid)
        return found


def replicas(service: int) -> list[Replica]:
    """Those of a service in the placement `split` that answer questions, besides the ingress."""
    return [
        Replica("index", "VectorIndex", service),
        Replica("embedder", "Embedder", service),
    ]


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.asynccontextmanager
async def stores(folder: Path) -> AsyncIterator[tuple[list[Dependency], Mapping[str, str]]]:
    """Starts PostgreSQL and Neo4j behind relays.

    Yields the dependencies, and the environment that makes a service use them.

    Args:
        folder: For their data; PostgreSQL's account must be able to enter it.
    """
    postgres = EmbeddedPostgres(folder / "postgres")
    neo4j = EmbeddedNeo4j(folder / "neo4j", Settings().cache_dir)
    dependencies = []
    try:
        for_postgres, for_neo4j = PostgresStore(postgres), Neo4jStore(neo4j)
        sockets = folder / "relay"
        sockets.mkdir()
        by_path = Relay(
            await asyncio.to_thread(for_postgres.start), Endpoint(path=sockets / SOCKET_NAME)
        )
        by_port = Relay(await asyncio.to_thread(for_neo4j.start), Endpoint())
        for store, relay in ((for_postgres, by_path), (for_neo4j, by_port)):
            await relay.open()
            dependencies.append(Dependency(store, relay))
        dsn = make_conninfo(host=str(sockets), port=5432, user="postgres", dbname="postgres")
        uri = f"bolt://127.0.0.1:{by_port.listen.port}"
        yield dependencies, {"TRIVIUM_POSTGRES__DSN": dsn, "TRIVIUM_NEO4J__URI": uri}
        await asyncio.gather(by_path.close(), by_port.close())
    finally:
        await asyncio.to_thread(neo4j.stop)
        await asyncio.to_thread(postgres.stop)


def _with_children(pid: int | None) -> list[int]:
    if pid is None:
        return []
    with contextlib.suppress(psutil.NoSuchProcess):
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return []
