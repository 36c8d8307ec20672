"""The answers between the end of a replica and the start of the next one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.desk.ray_environment import LOOPBACK, free_ports
from tests.chaos.http_client import HttpClient
from tests.support.haproxy import PORTS, running, write_config
from trivium import AsyncClient
from trivium.errors import UnavailableError

CALLS = 5


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a HAProxy whose replica has ended, and whose calls Ray's proxy would keep."""
    config, port = tmp_path / "haproxy.cfg", free_ports(PORTS + 1)
    with socket.create_server((LOOPBACK, 0)) as proxy:
        fallback = proxy.getsockname()[1]
        write_config(config, port, on_desk=True, replicas=[port + PORTS], fallback=fallback)
        with running(config, port):
            yield port


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
