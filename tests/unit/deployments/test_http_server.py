"""Where Serve starts its HTTP server."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve._private import replica

from serving.deployments import http_server
from serving.http.whole_requests import WholeRequests
from serving.rpc.identity.access import OPEN


async def test_servers_of_replicas_read_whole_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    async def start(app: Any, http_options: Any, *, event_loop: Any) -> Any:
        started.append(app)

    monkeypatch.setattr(replica, http_server.START, start)
    http_server.read_whole_requests(OPEN)
    http_server.read_whole_requests(OPEN)
    options = SimpleNamespace(ssl_certfile=None)

    await getattr(replica, http_server.START)("app", options, event_loop=None)

    assert [type(app) for app in started] == [WholeRequests]


def test_serve_starts_its_server_by_the_replaced_name() -> None:
    source = inspect.getsource(replica)

    assert f"return await {http_server.START}(" in source


def test_a_version_of_ray_without_this_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(replica, http_server.START)

    with pytest.raises(RuntimeError, match="unsupported version of Ray"):
        http_server.read_whole_requests(OPEN)
