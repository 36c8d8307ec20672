"""Callers whose calls are refused again and again: HAProxy answers them without the service."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import pytest
import uvicorn

from serving.desk.loopback import MAX_REFUSED, MAX_REJECTED
from serving.desk.ray_environment import LOOPBACK, free_ports
from serving.domain.identity import Role
from serving.http.application import asgi_application
from serving.rpc.identity.authenticator import OPEN, Authenticator
from serving.rpc.identity.key_ring import KeyRing
from tests.support.haproxy import PORTS, running, write_config
from tests.support.waiting import POLL_S
from tests.unit.rpc.identity.callers import NOW, FakeApiKeys
from tests.unit.rpc.server.test_bounds import CHECK, QUESTION, RETRIEVE, Service, listening

INVALID = b"\xff"
WRONG = "Bearer trv_wrong"
REFUSED = "RESOURCE_EXHAUSTED"

Call = Callable[[str, bytes], Awaitable[str]]
"""Calls with credentials, if any, and returns the name of the status."""
Calling = Callable[[Authenticator], AbstractAsyncContextManager[Call]]


@asynccontextmanager
async def by_grpc(config: Path, authenticator: Authenticator) -> AsyncIterator[Call]:
    async with listening(authenticator) as replica:
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


@asynccontextmanager
async def served(service: Any) -> AsyncIterator[str]:
    config = uvicorn.Config(
        asgi_application(service), host=LOOPBACK, port=0, log_config=None, lifespan="off"
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(POLL_S)
    try:
        yield f"{LOOPBACK}:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


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

    async with listening(authenticator) as replica:
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
