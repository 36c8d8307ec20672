"""TLS to the stores by their URIs, and their passwords, which are shown nowhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from serving.adapters.neo4j import Neo4jGraph
from serving.adapters.neo4j.graph import Neo4jSettings
from serving.adapters.postgres.connection.migrations import migrate
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.desk.ray_environment import free_ports
from serving.domain.errors import DependencyError, StoreUnavailableError
from tests.fixtures.cluster import Encryption
from tests.fixtures.local_service import local_service
from tests.fixtures.postgres import QUICK
from tests.support.waiting import until_async
from trivium import Health, Segment
from trivium.aio import AsyncClient
from trivium.errors import UnavailableError

SSL_REQUEST_BYTES = 8
"""What a client of PostgreSQL sends first if it wants TLS."""

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect: TypeAlias = Callable[[], Awaitable[Streams]]


@contextlib.asynccontextmanager
async def encrypted(connect: Connect, certificate: Path, first: int) -> AsyncIterator[int]:
    """Does TLS before a store, which the embedded ones do not; yields the port.

    Args:
        connect: Connects to the store.
        certificate: A file that has the key too.
        first: The bytes of a request for TLS, which is granted.
    """

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if first:
                await reader.readexactly(first)
                writer.write(b"S")
            await writer.start_tls(context)
            to_store = await connect()
            try:
                await asyncio.gather(copy(reader, to_store[1]), copy(to_store[0], writer))
            finally:
                to_store[1].close()
        writer.close()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(forward, "127.0.0.1")
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.postgres
async def test_a_connection_string_demands_the_certificate_of_postgresql(
    postgres_dsn: str, encryption: Encryption
) -> None:
    usual = conninfo_to_dict(postgres_dsn)
    socket = f"{usual['host']}/.s.PGSQL.{usual.get('port', 5432)}"

    async def connect() -> Streams:
        return await asyncio.open_unix_connection(socket)

    async with encrypted(connect, encryption.pem_file, SSL_REQUEST_BYTES) as port:

        def dsn(host: str, authority: Path) -> str:
            verified = {"sslmode": "verify-full", "sslrootcert": str(authority)}
            return make_conninfo(postgres_dsn, host=host, port=port, **verified)

        await migrate(dsn("localhost", encryption.ca_file))
        for refused in (
            dsn("localhost", encryption.ca_of_nodes),
            dsn("127.0.0.1", encryption.ca_file),
        ):
            with pytest.raises(StoreUnavailableError):
                await migrate(refused)


@pytest.mark.neo4j
async def test_a_uri_demands_the_certificate_of_neo4j(
    neo4j_uri: str, encryption: Encryption, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = urlsplit(neo4j_uri)

    async def connect() -> Streams:
        return await asyncio.open_connection(address.hostname, address.port)

    async with encrypted(connect, encryption.pem_file, 0) as port:
        for host, authority, accepted in (
            ("localhost", encryption.ca_file, True),
            ("localhost", encryption.ca_of_nodes, False),
            ("127.0.0.1", encryption.ca_file, False),
        ):
            monkeypatch.setenv("SSL_CERT_FILE", str(authority))
            graph = Neo4jGraph(Neo4jSettings(uri=f"bolt+s://{host}:{port}"))
            try:
                if accepted:
                    await graph.prepare()
                else:
                    with pytest.raises(DependencyError):
                        await graph.prepare()
            finally:
                await graph.close()


PASSWORD = "swordfish-of-the-stores"


@pytest.mark.postgres
async def test_passwords_of_stores_are_in_no_output(
    short_directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TRIVIUM_NEO4J__PASSWORD", PASSWORD)
    postgres = EmbeddedPostgres(short_directory / "late", settings=QUICK)
    dsn = await asyncio.to_thread(postgres.start)
    await asyncio.to_thread(postgres.stop)
    without_neo4j = f"bolt://127.0.0.1:{free_ports(1)}"
    async with local_service(make_conninfo(dsn, password=PASSWORD), without_neo4j) as memory:
        with pytest.raises(UnavailableError) as refused:
            await memory.retrieve("Who hired Tom?")
        await asyncio.to_thread(postgres.start)
        try:
            await until_async(lambda: _serves(memory))
            await memory.ingest([Segment(id="t1", text="Lotus Books hired Tom.")])
            answer = await memory.retrieve("Who hired Tom?", explain=True)
            stats = await memory.stats()
        finally:
            await asyncio.to_thread(postgres.stop)

    assert any(said.startswith("graph") for said in stats.service.degraded)
    shown = [refused.value, vars(refused.value), answer, stats, caplog.text]
    shown += [vars(record) for record in caplog.records]
    assert [each for each in shown if PASSWORD in str(each)] == []


async def _serves(memory: AsyncClient) -> bool:
    return await memory.check() is Health.SERVING
