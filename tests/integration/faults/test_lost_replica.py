"""The answers between the end of a replica and the start of the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from serving.desk.ray_environment import LOOPBACK, free_ports
from tests.chaos.http_client import HttpClient
from tests.support.haproxy import PORTS, running, write_config
from trivium import AsyncClient
from trivium.errors import UnavailableError

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
