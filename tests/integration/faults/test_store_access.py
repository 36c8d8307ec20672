"""TLS to the stores by their URIs, and their passwords, which are shown nowhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from bench.speed.faults.relay import Endpoint, Relay, Streams
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


class TlsRelay(Relay):
    """Does TLS before a store, which the embedded ones do not.

    `first` are the bytes of a request for TLS, which is granted; the certificate's file has the
    key too.
    """

    def __init__(self, store: Endpoint, certificate: Path, first: int) -> None:
        super().__init__(store, Endpoint())
        self._first = first
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)

    async def _forward(self, client: Streams) -> None:
        reader, writer = client
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if self._first:
                await reader.readexactly(self._first)
                writer.write(b"S")
            await writer.start_tls(self._context)
            await super()._forward(client)


@contextlib.asynccontextmanager
async def encrypted(store: Endpoint, certificate: Path, first: int) -> AsyncIterator[int]:
    """The port at which a store does TLS."""
    relay = TlsRelay(store, certificate, first)
    await relay.open()
    try:
        yield relay.listen.port
    finally:
        await relay.close()


@pytest.mark.postgres
async def test_a_connection_string_demands_the_certificate_of_postgresql(
    postgres_dsn: str, encryption: Encryption
) -> None:
    usual = conninfo_to_dict(postgres_dsn)
    socket = Path(f"{usual['host']}/.s.PGSQL.{usual.get('port', 5432)}")
    async with encrypted(Endpoint(path=socket), encryption.pem_file, SSL_REQUEST_BYTES) as port:

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
    store = Endpoint(port=urlsplit(neo4j_uri).port or 0)
    async with encrypted(store, encryption.pem_file, 0) as port:
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
