"""TLS in direct ingress: the hook in Ray, certificates that change, and clear text."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving.config.settings import TlsSettings
from serving.deployments.tls import listen_with_tls, server_credentials
from tests.support.certificates import Authority, Issued, replace_file


def settings_for(folder: Path, issued: Issued) -> TlsSettings:
    for name, pem in (("cert", issued.certificate), ("key", issued.key)):
        replace_file(folder / name, pem)
    return TlsSettings(certificate=folder / "cert", key=folder / "key")


class Peer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # it has no types
    """Remembers who called."""

    def __init__(self) -> None:
        self.seen: dict[str, object] = {}

    async def Check(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthCheckResponse:
        self.seen = dict(context.auth_context())
        return health_pb2.HealthCheckResponse(status=1)


@asynccontextmanager
async def listening(settings: TlsSettings) -> AsyncIterator[tuple[str, Peer]]:
    server, peer = grpc.aio.server(), Peer()
    health_pb2_grpc.add_HealthServicer_to_server(peer, server)
    port = server.add_secure_port("localhost:0", server_credentials(settings))
    await server.start()
    try:
        yield f"localhost:{port}", peer
    finally:
        await server.stop(grace=None)


async def check(address: str, credentials: grpc.ChannelCredentials) -> None:
    async with grpc.aio.secure_channel(
        address, credentials, [("grpc.use_local_subchannel_pool", 1)]
    ) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        await stub.Check(health_pb2.HealthCheckRequest(), timeout=20)


async def test_client_without_tls_is_rejected(tmp_path: Path) -> None:
    ours = Authority()
    settings = settings_for(tmp_path, ours.issue("localhost"))

    async with listening(settings) as (address, peer):
        await check(address, grpc.ssl_channel_credentials(ours.pem))
        assert peer.seen["transport_security_type"] == [b"ssl"]

        async with grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())


async def test_a_renewed_certificate_counts_for_the_next_connection(tmp_path: Path) -> None:
    before, after = Authority(), Authority()
    settings = settings_for(tmp_path, before.issue("localhost"))

    async with listening(settings) as (address, _):
        await check(address, grpc.ssl_channel_credentials(before.pem))
        settings_for(tmp_path, after.issue("localhost"))

        await check(address, grpc.ssl_channel_credentials(after.pem))
        with pytest.raises(grpc.aio.AioRpcError):
            await check(address, grpc.ssl_channel_credentials(before.pem))


async def test_while_a_renewed_certificate_is_missing_the_one_before_stays(tmp_path: Path) -> None:
    ours = Authority()
    settings = settings_for(tmp_path, ours.issue("localhost"))

    async with listening(settings) as (address, _):
        (tmp_path / "cert").unlink()

        await check(address, grpc.ssl_channel_credentials(ours.pem))


def test_tls_behind_haproxy_does_not_start(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, Authority().issue("localhost"))

    with pytest.raises(RuntimeError, match="RAY_SERVE_ENABLE_HA_PROXY=0"):
        listen_with_tls(settings, "haproxy")


SERVES_TLS = """
import asyncio, sys
from pathlib import Path
import grpc
from ray.serve._private.grpc_util import start_grpc_server
from ray.serve.config import gRPCOptions
from serving.config.settings import TlsSettings
from serving.deployments.tls import listen_with_tls

folder = Path(sys.argv[1])
listen_with_tls(TlsSettings(certificate=folder / "cert", key=folder / "key"), "direct")

class Recording:
    bound = []

def bind(kind):
    def add(self, address, *credentials):
        Recording.bound.append(kind)
        return 1
    return add

grpc.aio._server.Server.add_secure_port = bind("secure")
grpc.aio._server.Server.add_insecure_port = bind("insecure")

async def start():
    loop = asyncio.get_running_loop()
    options = gRPCOptions(port=1, grpc_servicer_functions=[])
    _, server = await start_grpc_server(lambda **_: None, options, event_loop=loop)
    await server.stop(None)

asyncio.run(start())
print(Recording.bound)
"""


def test_ray_serve_binds_its_grpc_servers_by_the_hook(tmp_path: Path) -> None:
    """Fails when Ray moves the function: the service would listen in clear text."""
    settings_for(tmp_path, Authority().issue("localhost"))

    said = subprocess.run(
        [sys.executable, "-c", SERVES_TLS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.stdout == "['secure']\n", said.stderr
