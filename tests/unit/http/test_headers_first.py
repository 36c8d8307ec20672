"""Credentials are checked at the headers of a request: its body is neither awaited nor read."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from serving.domain.identity import Caller, Role
from serving.http.application import answered_whole
from serving.http.connect import CONNECT_PATHS, connect_routes
from serving.http.designs import design_routes
from serving.http.plain import PLAIN_ROUTES, plain_routes
from serving.rpc.identity.authenticator import Authenticator
from serving.rpc.identity.rules import RULES
from tests.unit.http.requesting import FakeRpcs

SERVICE: Any = FakeRpcs()
ALL = [*connect_routes(SERVICE), *plain_routes(SERVICE), *design_routes(SERVICE)]
ROUTES = [
    (verb, route.path.replace("{agent_id}", "a b"))
    for route in ALL
    for verb in sorted(route.methods or ())
]
RPCS = {path: rpc.name for path, rpc in CONNECT_PATHS.items()} | {
    route.path: route.rpc for route in PLAIN_ROUTES
}
SITE = "https://app.example"


async def never() -> Message:
    """The next part of a body that no client sends."""
    return pytest.fail("the body was read before its caller was known")


async def unreached(scope: Scope, receive: Receive, send: Send) -> None:
    pytest.fail("a request of nobody took a call of Serve")


async def refused(service: Any, verb: str, path: str, **headers: str) -> Message:
    """The head of the answer to a request whose body is never sent."""
    answer: list[Message] = []

    async def send(message: Message) -> None:
        answer.append(message)
        if message["type"] == "http.response.body":
            raise ConnectionAbortedError  # instead of the rest of the request, which is discarded

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": verb, "path": path, "headers": raw, "query_string": b""}
    app = answered_whole(unreached, service, cors_origins=[SITE])
    with pytest.raises(ConnectionAbortedError):
        await app(scope, never, send)
    return answer[0]


def service_with(role: Role) -> Any:
    service = FakeRpcs()
    caller = Caller(name="bot", roles=frozenset({role}), tenants=None)
    service.authenticator = Authenticator(keys=lambda _: caller)
    return service


@pytest.mark.parametrize(("verb", "path"), ROUTES)
async def test_no_route_awaits_a_body_without_credentials(verb: str, path: str) -> None:
    head = await refused(service_with(Role.ADMIN), verb, path, **{"content-length": "9"})

    assert head["status"] == 401


@pytest.mark.parametrize(("verb", "path"), ROUTES)
async def test_no_route_awaits_a_body_without_role(verb: str, path: str) -> None:
    needed = RULES[RPCS.get(path, "Retrieve")].role
    role = Role.WRITER if needed is not Role.WRITER else Role.READER

    head = await refused(service_with(role), verb, path, authorization="Bearer trv_any")

    assert head["status"] == 403


async def test_refusal_is_readable_by_a_configured_site() -> None:
    head = await refused(service_with(Role.READER), "POST", "/v1/retrieve", origin=SITE)

    assert (b"access-control-allow-origin", SITE.encode()) in head["headers"]
