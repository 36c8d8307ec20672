"""HAProxy before the service: held connections, refused callers, and a lost replica."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest

from serving.desk.loopback import MAX_REFUSED, MAX_REJECTED
from serving.desk.ray_environment import LOOPBACK, free_ports
from serving.domain.identity import Role
from serving.rpc.identity.authenticator import OPEN, Authenticator
from serving.rpc.identity.key_ring import KeyRing
from tests.chaos.http_client import HttpClient
from tests.fixtures.cluster import Encryption
from tests.support.haproxy import PORTS, TLS_CONFIG, running, tls_proxy, write_config
from tests.support.http_server import served
from tests.support.waiting import until_async
from tests.unit.rpc.identity.callers import NOW, FakeApiKeys
from tests.unit.rpc.server.test_bounds import CHECK, QUESTION, RETRIEVE, Service, listening
from trivium import AsyncClient
from trivium.errors import UnavailableError

SETTINGS = bytes.fromhex("000000040000000000")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS
HALF_OF_HEADERS = PREFACE + bytes.fromhex("000090010400000001") + b"\x00\x07:method"
SENT = [b"", PREFACE[:10], PREFACE, HALF_OF_HEADERS]
READY = grpc.ChannelConnectivity.READY


def in_a_hurry(config: str) -> str:
    """The configuration with less patience for headers, and between requests by HTTP."""
    for before, after in (("http-request 10s", "http-request 300ms"), ("alive 90s", "alive 100ms")):
        config = config.replace(before, after)
    return config


async def closed(port: int, sent: bytes, tls: ssl.SSLContext | None = None) -> None:
    """Returns when the other side has closed a connection that says no more than this."""
    with contextlib.suppress(ConnectionError):
        reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=tls)
        writer.write(sent)
        while await reader.read(1024):
            pass
        writer.close()


async def used(channel: grpc.aio.Channel) -> None:
    """Calls once; there is no service that could answer."""
    call: Any = channel.unary_unary(RETRIEVE)
    assert await call(b"", wait_for_ready=True).code() is grpc.StatusCode.UNAVAILABLE


async def test_half_sent_headers_are_ended_on_both_ports(tmp_path: Path) -> None:
    config, port = tmp_path / "haproxy.cfg", free_ports(PORTS)
    config.write_text(in_a_hurry(write_config(config, port, on_desk=True)))

    with running(config, port):
        async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as idle:
            await used(idle)
            await asyncio.gather(
                *(closed(port, sent) for sent in SENT),
                *(closed(port + 1, sent) for sent in (b"", b"GET / HTTP/1.1\r\nhost: a")),
                closed(port, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"),
            )
            assert idle.get_state() is READY


async def test_half_sent_headers_are_ended_behind_tls(
    tmp_path: Path, encryption: Encryption
) -> None:
    config = tmp_path / "haproxy.cfg"
    config.write_text(in_a_hurry(TLS_CONFIG.read_text()))
    tls = ssl.create_default_context(cafile=encryption.ca_file)
    tls.check_hostname = False
    tls.set_alpn_protocols(["h2"])
    trusted = grpc.ssl_channel_credentials(encryption.ca_file.read_bytes())

    with tls_proxy(encryption.pem_file, f"{LOOPBACK}:{free_ports(1)}", config) as address:
        async with grpc.aio.secure_channel(address, trusted) as idle:
            await used(idle)
            port = int(address.rpartition(":")[2])
            await asyncio.gather(*(closed(port, sent, tls) for sent in SENT))
            assert idle.get_state() is READY


async def test_address_cannot_hold_all_connections(tmp_path: Path, encryption: Encryption) -> None:
    config = tmp_path / "haproxy.cfg"
    config.write_text(TLS_CONFIG.read_text().replace("conn_cur gt 256", "conn_cur gt 1"))

    with tls_proxy(encryption.pem_file, f"{LOOPBACK}:{free_ports(1)}", config) as address:
        port = int(address.rpartition(":")[2])
        tls = ssl.create_default_context(cafile=encryption.ca_file)
        held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

        async def one_is_held() -> bool:
            """False while the connection that waited for HAProxy counts: no handshake succeeds."""
            with contextlib.suppress(ConnectionError):
                held.append(await asyncio.open_connection("localhost", port, ssl=tls))
            return bool(held)

        await until_async(one_is_held)
        await closed(port, b"")

        [(reader, writer)] = held
        assert not reader.at_eof()
        writer.close()


INVALID = b"\xff"
WRONG = "Bearer trv_wrong"
REFUSED = "RESOURCE_EXHAUSTED"

Call = Callable[[str, bytes], Awaitable[str]]
"""Calls with credentials, if any, and returns the name of the status."""
Calling = Callable[[Authenticator], AbstractAsyncContextManager[Call]]


@asynccontextmanager
async def by_grpc(config: Path, authenticator: Authenticator) -> AsyncIterator[Call]:
    async with listening(Service(authenticator)) as replica:
        with proxied(config, replica) as port:
            async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel:
                method: Any = channel.unary_unary(RETRIEVE)

                async def call(credentials: str, request: bytes) -> str:
                    metadata = [("authorization", credentials)] if credentials else []
                    return await code_of(method(request, metadata=metadata))

                yield call


async def code_of(call: Any) -> str:
    code: grpc.StatusCode = await call.code()
    return code.name


@asynccontextmanager
async def by_http(config: Path, authenticator: Authenticator) -> AsyncIterator[Call]:
    async with served(Service(authenticator)) as replica:
        with proxied(config, replica) as port:
            async with aiohttp.ClientSession(f"http://{LOOPBACK}:{port + 1}") as session:

                async def call(credentials: str, request: bytes) -> str:
                    headers = {"content-type": "application/proto"}
                    headers |= {"authorization": credentials} if credentials else {}
                    async with session.post(RETRIEVE, data=request, headers=headers) as response:
                        is_ok = response.status == 200
                        return "OK" if is_ok else (await response.json())["code"].upper()

                yield call


@contextmanager
def proxied(config: Path, replica: str) -> Iterator[int]:
    """HAProxy before a replica; it counts for an hour, so that a slow machine changes nothing."""
    port, ports = free_ports(PORTS + 1), [int(replica.rpartition(":")[2])]
    written = write_config(config, port, on_desk=True, replicas=ports, fallback=port + PORTS)
    unchecked = re.sub(r"(server replica .*) check observe .*", r"\1 no-check", written)
    config.write_text(unchecked.replace("gpc0_rate(1s)", "gpc0_rate(1h)"))
    with running(config, port):
        yield port


@pytest.fixture(params=[by_grpc, by_http], ids=["gRPC", "HTTP"])
def calling(tmp_path: Path, request: pytest.FixtureRequest) -> Calling:
    """Calls by one protocol."""
    return partial(request.param, tmp_path / "haproxy.cfg")


async def with_keys() -> tuple[Authenticator, str, str]:
    """The authenticator of a service, and two keys."""
    keys = FakeApiKeys()
    ring = KeyRing(keys, now=lambda: NOW, monotonic=lambda: 0.0)
    one, other = (f"Bearer {keys.make(Role.READER)}" for _ in range(2))
    await ring.refresh()
    return Authenticator(keys=ring.verify), one, other


@pytest.mark.parametrize("credentials", ["", WRONG], ids=["none", "wrong"])
async def test_rejected_caller_is_refused_without_others(
    calling: Calling, credentials: str
) -> None:
    authenticator, key, _ = await with_keys()

    async with calling(authenticator) as call:
        statuses = [await call(credentials, QUESTION) for _ in range(MAX_REFUSED + 2)]

        assert statuses == ["UNAUTHENTICATED"] * (MAX_REFUSED + 1) + [REFUSED]
        assert await call(key, QUESTION) == "OK"


async def test_caller_with_invalid_calls_is_refused_without_others(calling: Calling) -> None:
    authenticator, key, other = await with_keys()

    async with calling(authenticator) as call:
        statuses = [await call(key, INVALID) for _ in range(MAX_REFUSED + 1)]

        assert statuses == ["INVALID_ARGUMENT"] * (MAX_REFUSED + 1)
        assert await call(key.replace("Bearer", "bEARER"), QUESTION) == REFUSED
        assert await call(other, QUESTION) == "OK"


async def test_address_with_changing_credentials_keeps_answered_callers(calling: Calling) -> None:
    authenticator, key, new = await with_keys()

    async with calling(authenticator) as call:
        assert await call(key, QUESTION) == "OK"
        statuses = [await call(f"{WRONG}{n}", QUESTION) for n in range(MAX_REJECTED + 2)]

        assert statuses == ["UNAUTHENTICATED"] * (MAX_REJECTED + 1) + [REFUSED]
        assert await call(new, QUESTION) == REFUSED
        assert await call(key, QUESTION) == "OK"


async def test_health_of_refused_callers_is_answered(tmp_path: Path) -> None:
    authenticator, _, _ = await with_keys()

    async with listening(Service(authenticator)) as replica:
        with proxied(tmp_path / "haproxy.cfg", replica) as port:
            async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel:
                ask: Any = channel.unary_unary(RETRIEVE)
                check: Any = channel.unary_unary(CHECK)
                for _ in range(MAX_REFUSED + 1):
                    await code_of(ask(QUESTION))

                assert await code_of(ask(QUESTION)) == REFUSED
                assert await code_of(check(b"")) == "OK"


async def test_service_without_authentication_refuses_no_address(calling: Calling) -> None:
    async with calling(OPEN) as call:
        statuses = [await call("", INVALID) for _ in range(MAX_REFUSED + 2)]

    assert statuses == ["INVALID_ARGUMENT"] * (MAX_REFUSED + 2)


CALLS = 5
SUCCESS = b"\x0a\x07success"
"""What Ray's proxy answers to a check of its health."""


class RaysProxy(grpc.GenericRpcHandler):
    """Is healthy, and keeps all calls."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        async def answer(_request: bytes, _context: object) -> bytes:
            if not details.method.endswith("/Healthz"):
                await asyncio.Event().wait()
            return SUCCESS

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """The port of a HAProxy whose replica has ended, and whose calls Ray's proxy would keep."""
    config, port = tmp_path / "haproxy.cfg", free_ports(PORTS + 1)
    proxy = grpc.aio.server(handlers=[RaysProxy()])
    fallback = proxy.add_insecure_port(f"{LOOPBACK}:0")
    await proxy.start()
    write_config(config, port, on_desk=True, replicas=[port + PORTS], fallback=fallback)
    with running(config, port):
        yield port
    await proxy.stop(None)


async def test_calls_without_a_replica_are_starting(port: int) -> None:
    by_grpc = AsyncClient(f"{LOOPBACK}:{port}", tenant="acme")
    by_http = HttpClient(f"{LOOPBACK}:{port}", f"http://{LOOPBACK}:{port + 1}").for_tenant("acme")

    for client in (by_grpc, by_http):
        async with client:
            for _ in range(CALLS):
                with pytest.raises(UnavailableError) as raised:
                    await client.retrieve("Who is there?", timeout=10)
                assert raised.value.reason == "STARTING"
                assert raised.value.retry_delay is not None
