"""Serve's servers within bounds, without a replica around them."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import AsyncIterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2
from ray.serve._private import grpc_util, replica
from ray.serve.config import gRPCOptions

from serving.deployments import app, server
from serving.desk.ray_environment import free_ports
from serving.rpc import bounds
from serving.rpc.boundary import deadline_after
from serving.rpc.bounds import OpenStreams
from serving.rpc.identity.authenticator import OPEN
from serving.telemetry import NoRecorder
from tests.support.tracked_files import ROOT, tracked_files
from trivium.v1.catalog_service_pb2 import WatchChangesResponse

RETRIEVE = "/trivium.v1.RetrievalService/Retrieve"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
HELD = 2


class Service:
    authenticator = OPEN
    recorder = NoRecorder()
    tracer = None

    def __init__(self) -> None:
        self.streams = OpenStreams(HELD)

    async def Check(self, *_: object) -> health_pb2.HealthCheckResponse:  # noqa: N802
        return health_pb2.HealthCheckResponse(status=1)

    async def List(self, *_: object) -> health_pb2.HealthListResponse:  # noqa: N802
        return health_pb2.HealthListResponse()

    async def Watch(self, *_: object) -> AsyncIterator[health_pb2.HealthCheckResponse]:  # noqa: N802
        yield await self.Check()
        await asyncio.Event().wait()

    async def WatchChanges(self, *_: object) -> AsyncIterator[WatchChangesResponse]:  # noqa: N802
        yield WatchChangesResponse(token="now")


TAKEN_S: list[float] = []
"""What was left of each call that Serve took."""


async def left_s() -> float:
    """The seconds left of a call, as a method knows them, which Serve runs in a task."""
    return deadline_after(3600).remaining()


def of_serve(service_method: str, streaming_type: object) -> Any:
    """What Serve makes the handlers of: says that it took one of its concurrent calls."""
    del streaming_type

    async def took(request: object, context: object) -> bytes:
        TAKEN_S.append(await asyncio.create_task(left_s()))
        return service_method.encode()

    return took


@pytest.fixture
async def channel(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the server that a replica starts."""
    monkeypatch.setattr(grpc_util, server.CLASS, server.SERVED)
    monkeypatch.setattr(bounds, "MAX_WITHOUT_CREDENTIALS", HELD)
    monkeypatch.setattr(bounds, "MAX_WATCHES", HELD)
    service: Any = Service()
    server.serve_within_bounds(service, "direct")
    options = gRPCOptions(port=free_ports(1), grpc_servicer_functions=app.SERVICERS)
    task, started = await grpc_util.start_grpc_server(
        of_serve, options, event_loop=asyncio.get_running_loop()
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{options.port}") as channel:
        yield channel
    await started.stop(grace=None)
    await task


async def test_health_takes_no_call_of_serve(channel: grpc.aio.Channel) -> None:
    check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
    retrieve: Any = channel.unary_unary(RETRIEVE)

    assert health_pb2.HealthCheckResponse.FromString(await check(b"")).status == 1
    assert await retrieve(b"") == RETRIEVE.encode()


async def test_stream_of_changes_takes_no_call_of_serve(channel: grpc.aio.Channel) -> None:
    watch: Any = channel.unary_stream("/trivium.v1.CatalogService/WatchChanges")

    [response] = [each async for each in watch(b"")]

    assert WatchChangesResponse.FromString(response).token == "now"


async def test_deadline_of_call_reaches_methods_within_serve(channel: grpc.aio.Channel) -> None:
    retrieve: Any = channel.unary_unary(RETRIEVE)

    await retrieve(b"", timeout=60)
    await retrieve(b"")

    assert TAKEN_S[-2:] == pytest.approx([54, 3600], abs=2)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/grpc.health.v1.Health/Watch", grpc.StatusCode.UNIMPLEMENTED),
        (REFLECTION, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_streams_that_are_open_to_anyone_are_bounded(
    path: str, code: grpc.StatusCode, channel: grpc.aio.Channel
) -> None:
    open_stream: Any = channel.stream_stream(path)
    held = [open_stream() for _ in range(HELD)]
    for stream in held:
        await stream.write(b"")
        await stream.read()

    assert await open_stream().code() is code


async def test_healthz_of_serve_needs_its_message(
    channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MESSAGE_S", 0.01)
    check: Any = channel.stream_unary("/ray.serve.RayServeAPIService/Healthz")

    assert await check().code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_version_of_ray_without_this_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SERVED", SimpleNamespace())
    service: Any = Service()

    with pytest.raises(RuntimeError, match="unsupported version of Ray"):
        server.serve_within_bounds(service, "direct")


async def test_servers_of_replicas_read_whole_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    async def start(app: Any, http_options: Any, *, event_loop: Any) -> Any:
        started.append(app)

    monkeypatch.setattr(replica, server.START, start)
    for _ in range(2):
        server.read_whole_requests(lambda app: app + " behind")  # type: ignore[operator]
    options = SimpleNamespace(ssl_certfile=None)

    await getattr(replica, server.START)("app", options, event_loop=None)

    assert started == ["app behind"]


def test_serve_starts_its_server_by_the_replaced_name() -> None:
    source = inspect.getsource(replica)

    assert f"return await {server.START}(" in source


def test_a_version_of_ray_without_this_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(replica, server.START)

    with pytest.raises(RuntimeError, match="unsupported version of Ray"):
        server.read_whole_requests(lambda app: app)


# ---------------------------------------------------------------- Ray's internals


USED = {
    "ray._private.services:ConsolePopen": "serving/desk/ray_cluster.py",
    "ray._private.services:get_node": "serving/desk/ray_cluster.py",
    "ray._private.utils:set_sigterm_handler": "serving/desk/ray_cluster.py",
    "ray.serve._private.api:HTTP_PROXY_TIMEOUT": "serving/desk/ray_cluster.py",
    "ray.serve.context:_get_global_client": "serving/desk/ray_cluster.py",
    "ray.serve._private.grpc_util:gRPCGenericServer": "serving/deployments/server.py",
    "ray.serve._private.replica:start_asgi_http_server": "serving/deployments/server.py",
    "ray.serve._private.haproxy:HAProxyApi": "serving/desk/loopback.py",
    "ray.serve._private.haproxy_templates:HAPROXY_CONFIG_TEMPLATE": "serving/desk/loopback.py",
}
"""Names, and the file that uses each: where to look before another version is pinned."""


@pytest.mark.parametrize("name", USED)
def test_private_name_of_ray_exists(name: str) -> None:
    module, _, attribute = name.partition(":")

    assert attribute in (ROOT / USED[name]).read_text()
    assert hasattr(import_module(module), attribute), f"look at {USED[name]}"


def test_files_with_private_modules_of_ray_are_listed() -> None:
    private = {
        path
        for path in tracked_files("serving/*.py")
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        if re.search(r"\bray\b.*\b_", ast.unparse(node))
    }

    assert private == set(USED.values())


def test_version_of_ray_is_exact() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    [ray] = [each for each in project["dependencies"] if each.startswith("ray")]

    assert re.fullmatch(r"ray\[serve\]==\d+\.\d+\.\d+", ray)


# ---------------------------------------------------------------- replicas


def after_start(code: str) -> str:
    """What code prints in a process of its own, where a replica has started."""
    start = "from serving.deployments.replica import Replica\nReplica()._start({})\n"
    command = [sys.executable, "-c", start + textwrap.dedent(code)]
    return subprocess.check_output(command, text=True)


def test_a_replica_writes_no_core_dump() -> None:
    limits = after_start(
        """
        import resource
        print(*resource.getrlimit(resource.RLIMIT_CORE))
        """
    )

    assert set(limits.split()) <= {"0", "1"}


def test_long_request_id_is_shortened_in_serve_log() -> None:
    logged = after_start(
        """
        import logging, sys
        serves = logging.getLogger("ray.serve")
        serves.addHandler(logging.StreamHandler(sys.stdout))
        serves.handlers[-1].setFormatter(logging.Formatter("%(request_id)s"))
        Replica()._start({})
        serves.warning("x", extra={"request_id": 7000 * "i"})
        """
    )

    assert logged == 128 * "i" + "\n"
