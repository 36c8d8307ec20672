"""A service in each placement, its stores and replicas, and the faults that they can have."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import psutil
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.harness.collection import Collection
from bench.harness.connections import MAX_CONNECTIONS, Connections, connected
from bench.harness.processes import ServiceProcesses
from bench.harness.service import fresh_data, started
from bench.harness.writing import store
from bench.reports.recording import console
from bench.speed.faults.relay import Endpoint, Relay
from serving.config.settings import Settings
from serving.desk.embedded_neo4j import EmbeddedNeo4j
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.desk.embedded_postgres.postmaster import SOCKET_NAME, ProcessTable


class Fault(StrEnum):
    """A fault of a store or a replica."""

    SLOWER = "50 ms slower"
    MUCH_SLOWER = "2 s slower"
    HUNG = "hung"
    REFUSED = "connections refused"
    KILLED = "killed and restarted"


RESTARTED_WITHIN_S = 60.0
DELAYS_S = {Fault.SLOWER: 0.05, Fault.MUCH_SLOWER: 2.0}
REPLICAS = {"index": "VectorIndex", "embedder": "Embedder"}
"""The deployments of `split` that answer questions, besides the ingress."""


@dataclass(frozen=True, slots=True)
class Store:
    """A store behind a relay, which `start` starts again after it was killed.

    The first of its processes has started the others.
    """

    name: str
    start: Callable[[], object]
    processes: Callable[[], list[int]]
    relay: Relay

    faults = frozenset(Fault)

    async def begin(self, fault: Fault) -> None:
        """Lets a fault begin."""
        match fault:
            case Fault.SLOWER | Fault.MUCH_SLOWER:
                self.relay.delay_s = DELAYS_S[fault]
            case Fault.HUNG:
                _signal(self.processes(), signal.SIGSTOP)
            case Fault.REFUSED:
                await self.relay.close()
            case Fault.KILLED:
                _signal(self.processes(), signal.SIGKILL)

    async def end(self, fault: Fault) -> None:
        """Ends it; returns when the store is back."""
        match fault:
            case Fault.SLOWER | Fault.MUCH_SLOWER:
                self.relay.delay_s = 0.0
            case Fault.HUNG:
                _signal(self.processes(), signal.SIGCONT)
            case Fault.REFUSED:
                await self.relay.open()
            case Fault.KILLED:
                await asyncio.to_thread(self.start)


@dataclass(slots=True)
class Replica:
    """The only replica of a deployment, which Serve starts again after it was killed.

    `service` is the first process of the service.
    """

    name: str
    service: int
    _killed: list[int] = field(default_factory=list)

    faults = frozenset({Fault.HUNG, Fault.KILLED})

    async def begin(self, fault: Fault) -> None:
        """Lets a fault begin."""
        found = self._processes()
        if not found:
            raise RuntimeError(f"there is no process of the replica {REPLICAS[self.name]}")
        self._killed = found
        _signal(found, signal.SIGKILL if fault is Fault.KILLED else signal.SIGSTOP)

    async def end(self, fault: Fault) -> None:
        """Ends it; returns when there is a process again, which may not be ready yet."""
        if fault is Fault.HUNG:
            _signal(self._killed, signal.SIGCONT)
            return
        async with asyncio.timeout(RESTARTED_WITHIN_S):
            while set(self._processes()) <= set(self._killed):  # noqa: ASYNC110 - of another program
                await asyncio.sleep(0.1)

    def _processes(self) -> list[int]:
        role = f"replica {REPLICAS[self.name]}"
        found = ServiceProcesses(self.service).by_role()
        return [process.pid for its, process in found if its == role]


Dependency: TypeAlias = Store | Replica


async def in_each_placement(
    collection: Collection,
    measure: Callable[[Connections, Sequence[Dependency]], Awaitable[None]],
) -> None:
    """Measures a service in `single` with its stores, then one in `split` with its replicas.

    Both have the same stores, which hold the collection.
    """
    console.print("starting PostgreSQL and Neo4j")
    with fresh_data() as folder:
        async with _stores(folder) as (of_stores, settings):
            for placement in ("single", "split"):
                console.print(f"starting the service, {placement}")
                environment = {**settings, "TRIVIUM_SERVE__PLACEMENT": placement}
                async with (
                    started(folder, environment) as service,
                    connected(service.address, MAX_CONNECTIONS) as connections,
                ):
                    dependencies: Sequence[Dependency] = of_stores
                    if placement == "split":
                        dependencies = [Replica(name, service.pid) for name in REPLICAS]
                    await store(connections, collection)
                    await measure(connections, dependencies)


@contextlib.asynccontextmanager
async def _stores(folder: Path) -> AsyncIterator[tuple[list[Store], Mapping[str, str]]]:
    """Starts PostgreSQL and Neo4j behind relays, with their data in a folder.

    Yields the stores, and the environment that makes a service use them.
    """
    postgres = EmbeddedPostgres(folder / "postgres")
    neo4j = EmbeddedNeo4j(folder / "neo4j", Settings().cache_dir)

    def start_postgres() -> Endpoint:
        postgres.stop()  # forgets a server that was killed
        host = conninfo_to_dict(postgres.start())["host"]
        return Endpoint(path=Path(str(host)) / SOCKET_NAME)

    sockets = folder / "relay"
    sockets.mkdir()
    try:
        by_path = Relay(
            await asyncio.to_thread(start_postgres), Endpoint(path=sockets / SOCKET_NAME)
        )
        port = urlsplit(await asyncio.to_thread(neo4j.start)).port
        assert port is not None, "Neo4j names its port; this is a bug"
        by_port = Relay(Endpoint(port=port), Endpoint())
        await asyncio.gather(by_path.open(), by_port.open())
        dsn = make_conninfo(host=str(sockets), port=5432, user="postgres", dbname="postgres")
        uri = f"bolt://127.0.0.1:{by_port.listen.port}"
        yield (
            [
                Store(
                    "postgres",
                    start_postgres,
                    lambda: _with_children(ProcessTable(postgres.data).find()),
                    by_path,
                ),
                Store("neo4j", neo4j.restart_if_dead, lambda: _with_children(neo4j.pid), by_port),
            ],
            {"TRIVIUM_POSTGRES__DSN": dsn, "TRIVIUM_NEO4J__URI": uri},
        )
        await asyncio.gather(by_path.close(), by_port.close())
    finally:
        await asyncio.to_thread(neo4j.stop)
        await asyncio.to_thread(postgres.stop)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _with_children(pid: int | None) -> list[int]:
    if pid is None:
        return []
    with contextlib.suppress(psutil.NoSuchProcess):
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return []
