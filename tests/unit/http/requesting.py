"""Requests of HTTP to the application, without a server."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import httpx
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from starlette.types import ASGIApp

from serving.http.application import asgi_application
from serving.rpc.boundary import rpc
from serving.rpc.identity.authenticator import OPEN, Authenticator
from serving.rpc.registration import METHODS
from serving.telemetry import NoRecorder

HOST = "http://127.0.0.1:8000"
JSON = {"content-type": "application/json"}


def _method(name: str) -> Any:
    """An RPC that answers what the service was told, or an empty response."""

    async def answer(self: FakeRpcs, request: Message) -> Message:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return self.response or GetMessageClass(METHODS[name].output_type)()

    answer.__name__ = name
    return rpc(answer)


class FakeRpcs:
    """The service as HTTP sees it: keeps what it was asked, and answers what it was told."""

    recorder = NoRecorder()
    tracer = None

    def __init__(self, response: Message | None = None, *, error: Exception | None = None) -> None:
        self.authenticator: Authenticator = OPEN
        self.requests: list[Any] = []
        self.response = response
        self.error = error


for each in METHODS:
    setattr(FakeRpcs, each, _method(each))


async def requested(
    app: ASGIApp, verb: str, path: str, *, base_url: str = HOST, **more: Any
) -> httpx.Response:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
        return await client.request(verb, path, **more)


async def sent(
    service: Any,
    verb: str,
    path: str,
    *,
    options: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> httpx.Response:
    return await requested(asgi_application(service, **options), verb, path, **more)


async def posted(service: Any, path: str, given: Any, **headers: str) -> httpx.Response:
    """A request with a body in JSON; the header `a-b` is given as `a_b`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await sent(service, "POST", path, json=given, headers=named)
