"""What clients may send over HTTP and hold up, and credentials, checked at the headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from serving.domain.errors import (
    PermissionDeniedError,
    StoreUnavailableError,
    TriviumError,
    UnauthenticatedError,
)
from serving.domain.identity import Caller, Role
from serving.http import whole_requests
from serving.http.application import answered_whole
from serving.http.calls import ARRIVED
from serving.http.connect import CONNECT_PATHS, connect_routes
from serving.http.designs import design_routes
from serving.http.plain import PLAIN_ROUTES, plain_routes
from serving.http.whole_requests import WholeRequests
from serving.rpc.identity.authenticator import Authenticator
from serving.rpc.identity.rules import ANYONE, RULES
from serving.rpc.message_bounds import MAX_BYTES_ON_LOOP, QUESTION, SMALL, Bounds
from serving.rpc.pending import READ_AGAIN_S, PendingCalls
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import cancel
from tests.unit.http.requesting import FakeRpcs

SERVICE = FakeRpcs()
CONNECT_PATHS_OF = {method.name: path for path, method in CONNECT_PATHS.items()}
ENDED: Message = {"type": "http.request", "body": b"", "more_body": False}


def part(body: bytes) -> Message:
    return {"type": "http.request", "body": body, "more_body": True}


class Behind:
    """The application behind; keeps the bodies that it got."""

    def __init__(self, response: Response | None = None) -> None:
        self.bodies: list[bytes] = []
        self.scopes: list[Scope] = []
        self.ended = asyncio.Event()
        self._response = response or Response(b"{}", media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        self.bodies.append((await receive())["body"])
        await self._response(scope, receive, send)
        self.ended.set()


class Client:
    """Sends messages, and then nothing; keeps what is answered, if it reads answers."""

    def __init__(self, *messages: Message, reads: bool = True) -> None:
        self._messages = list(messages)
        self._reads = reads
        self.answer: list[Message] = []

    async def receive(self) -> Message:
        if not self._messages:
            await asyncio.Event().wait()
        return self._messages.pop(0)

    async def send(self, message: Message) -> None:
        if not self._reads:
            await asyncio.Event().wait()
        self.answer.append(message)

    async def request(self, app: WholeRequests, path: str = "/v1/ingest", **headers: str) -> None:
        """Sends the messages to the application; the header `a-b` is given as `a_b`."""
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": path, "headers": raw}
        await app(scope, self.receive, self.send)

    @property
    def status(self) -> int:
        return int(self.answer[0]["status"])

    @property
    def unread(self) -> int:
        return len(self._messages)


async def test_body_in_parts_arrives_whole() -> None:
    behind, client = Behind(), Client(part(b"ab"), part(b"cd"), ENDED)

    await client.request(WholeRequests(behind, SERVICE))

    assert behind.bodies == [b"abcd"]
    assert client.status == 200
    assert ARRIVED in behind.scopes[0]


@pytest.mark.parametrize(
    ("sent", "headers"),
    [
        ([part(b"x" * whole_requests.MAX_BODY_BYTES), part(b"x"), part(b"x"), ENDED], {}),
        ([part(b"x"), ENDED], {"content_length": str(whole_requests.MAX_BODY_BYTES + 1)}),
        ([part(b"x"), ENDED], {"content_length": "9" * 30}),
    ],
)
async def test_too_large_request_is_refused_unread(
    sent: Sequence[Message], headers: dict[str, str]
) -> None:
    behind, client = Behind(), Client(*sent)

    await client.request(WholeRequests(behind, SERVICE), **headers)

    assert client.status == 413
    assert (b"connection", b"close") in client.answer[0]["headers"]
    assert behind.bodies == []
    # The connection, which is closed with the last part, is not reset with data unread.
    assert [message.get("more_body") for message in client.answer[1:]] == [True, None]
    assert client.unread == 0


async def test_rest_of_refused_request_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_requests, "MAX_DISCARDED_BYTES", 2)
    monkeypatch.setattr(whole_requests, "DISCARD_WITHIN_S", 0.0)
    long, slow = Client(*[part(b"x")] * 9), Client()

    for client in (long, slow):
        await client.request(WholeRequests(Behind(), SERVICE), content_length="9" * 30)

        assert client.status == 413
    assert long.unread >= 7


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnauthenticatedError("unknown"), 401),
        (PermissionDeniedError("names no tenant"), 403),
        (StoreUnavailableError("no keys"), 503),
    ],
)
async def test_refused_credentials_are_answered_with_details(
    error: TriviumError, status: int
) -> None:
    def fail(_: str) -> Caller:
        raise error

    service, behind, client = FakeRpcs(), Behind(), Client(part(b"ab"), ENDED)
    service.authenticator = Authenticator(keys=fail)

    await client.request(WholeRequests(behind, service), authorization="Bearer trv_any")

    assert client.status == status
    assert json.loads(client.answer[1]["body"])["details"][0]["debug"]["domain"] == "trivium.v1"
    assert behind.bodies == []


async def test_request_for_a_file_arrives_without_body() -> None:
    behind, client = Behind(), Client(part(b"ab"), ENDED)

    await client.request(WholeRequests(behind, SERVICE), "/docs")

    assert (behind.bodies, client.unread) == ([b""], 2)


async def test_application_receives_no_rest_of_a_body() -> None:
    received: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        received.extend([await receive(), await receive()])
        await Response()(scope, receive, send)

    client = Client(part(b"ab"), ENDED, {"type": "http.disconnect"})
    await client.request(WholeRequests(app, SERVICE), "/docs")

    assert [each["type"] for each in received] == ["http.request", "http.disconnect"]


async def test_slow_request_is_refused_without_taking_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole_requests, "READ_WITHIN_S", 0.0)
    monkeypatch.setattr(whole_requests, "DISCARD_WITHIN_S", 0.0)
    behind, client = Behind(), Client(part(b"{"))

    await client.request(WholeRequests(behind, SERVICE))

    assert client.status == 408
    assert behind.bodies == []


async def test_refused_request_holds_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_requests, "MAX_BODY_BYTES", 3)
    monkeypatch.setattr(whole_requests, "MAX_HELD_BYTES", 4)
    behind = Behind()
    whole = WholeRequests(behind, SERVICE)
    refused, other = Client(part(b"abc"), part(b"d")), Client(part(b"ef"), ENDED)

    discarding = asyncio.create_task(refused.request(whole))
    await asyncio.sleep(0)
    assert refused.status == 413
    await other.request(whole)

    assert (other.status, discarding.done()) == (200, False)
    await cancel(discarding)


async def test_all_requests_share_one_bound_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_requests, "MAX_HELD_BYTES", 3)
    behind = Behind()
    whole = WholeRequests(behind, SERVICE)
    first = Client(part(b"ab"))
    second, third = (Client(part(body), ENDED) for body in (b"cd", b"ef"))

    reading = asyncio.create_task(first.request(whole))
    await asyncio.sleep(0)
    await second.request(whole)
    await cancel(reading)
    await third.request(whole)

    assert (second.status, third.status) == (429, 200)
    assert behind.bodies == [b"ef"]


def service_of_any_key() -> Any:
    """A service whose callers are named by their keys."""
    service = FakeRpcs()
    service.authenticator = Authenticator(
        keys=lambda text: Caller(name=text, roles=frozenset(Role), tenants=None)
    )
    return service


async def test_a_caller_cannot_hold_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_requests, "MAX_HELD_BYTES", 4)
    whole = WholeRequests(Behind(), service_of_any_key())
    held, more, other = Client(part(b"abc")), Client(part(b"d"), ENDED), Client(part(b"e"), ENDED)

    reading = asyncio.create_task(held.request(whole, authorization="Bearer trv_a"))
    await asyncio.sleep(0)
    await more.request(whole, authorization="Bearer trv_a")
    await other.request(whole, authorization="Bearer trv_b")
    await cancel(reading)

    assert (more.status, other.status) == (429, 200)


@pytest.mark.parametrize(
    ("bound", "statuses"), [(SMALL, (413, 200, 200)), (QUESTION, (413, 413, 200))]
)
async def test_body_is_bounded_by_its_route(bound: Bounds, statuses: tuple[int, int, int]) -> None:
    length, answered = str(bound.max_bytes + 1), []
    for path in (CONNECT_PATHS_OF["DescribeEntity"], "/v1/retrieve", "/v1/ingest"):
        client = Client(ENDED)
        await client.request(WholeRequests(Behind(), SERVICE), path, content_length=length)
        answered.append(client.status)

    assert tuple(answered) == statuses


MANY_VALUES = b"[" + b"0," * QUESTION.max_values + b"0]"
MANY_FIELDS = b"\x32\x00" * (QUESTION.max_values + 1)


@pytest.mark.parametrize(
    ("path", "content_type", "body"),
    [
        *((path, "application/json", MANY_VALUES) for path in ("/v1/retrieve", "/v1/query")),
        (CONNECT_PATHS_OF["Retrieve"], "application/json", MANY_VALUES),
        (CONNECT_PATHS_OF["Retrieve"], "application/proto", MANY_FIELDS),
        (CONNECT_PATHS_OF["Retrieve"], "Application/Proto; a=b", MANY_FIELDS),
    ],
)
async def test_request_of_many_values_is_no_call(
    path: str, content_type: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="serving")
    behind, client = Behind(), Client(part(body), ENDED)

    await client.request(WholeRequests(behind, SERVICE), path, content_type=content_type)

    answer = json.loads(client.answer[1]["body"])
    assert (client.status, behind.bodies) == (400, [])
    assert "8,192 values" in answer["message"]
    assert [each["type"] for each in answer["details"]][1] == "google.rpc.BadRequest"
    [line] = caplog.records
    assert (vars(line)["code"], vars(line)["caller"]) == ("INVALID_ARGUMENT", ANYONE.name)


async def test_large_bodies_of_a_caller_are_counted_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[int] = []
    end = asyncio.Event()

    async def count(rpc: str, data: bytes, *, is_json: bool) -> None:
        del rpc, is_json
        counted.append(len(data))
        await end.wait()

    monkeypatch.setattr(whole_requests, "fault_of_body", count)
    whole, large = WholeRequests(Behind(), service_of_any_key()), MAX_BYTES_ON_LOOP + 1
    async with asyncio.TaskGroup() as requests:
        for key, size in (("a", large), ("a", large + 1), ("b", large + 2), ("a", 1)):
            client = Client(part(b"x" * size), ENDED)
            requests.create_task(client.request(whole, authorization=f"Bearer trv_{key}"))
        await asyncio.sleep(0)

        assert counted == [large, large + 2, 1]
        end.set()
    assert counted == [large, large + 2, 1, large + 1]


async def test_client_that_leaves_while_sending_is_no_call() -> None:
    behind, client = Behind(), Client(part(b"ab"), {"type": "http.disconnect"})

    await client.request(WholeRequests(behind, SERVICE))

    assert (behind.bodies, client.answer) == ([], [])


async def test_slow_reader_holds_no_place() -> None:
    behind, client = Behind(), Client(ENDED, reads=False)

    task = asyncio.create_task(client.request(WholeRequests(behind, SERVICE)))
    async with asyncio.timeout(10):
        await behind.ended.wait()
    await cancel(task)

    assert behind.ended.is_set()


async def test_full_queue_of_serve_is_an_error_of_connect() -> None:
    dropped = PlainTextResponse("Request dropped due to backpressure", status_code=503)
    client = Client(ENDED)

    await client.request(WholeRequests(Behind(dropped), SERVICE))

    assert client.status == 429
    assert b'"code":"resource_exhausted"' in client.answer[1]["body"]


async def test_health_of_serve_is_passed_on() -> None:
    unhealthy = PlainTextResponse("draining", status_code=503)
    client = Client(ENDED)

    await client.request(WholeRequests(Behind(unhealthy), SERVICE), "/-/healthz")

    assert client.status == 503
    assert client.answer[1]["body"] == b"draining"


async def test_calls_that_wait_for_a_method_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppedClock()
    pending = PendingCalls(clock)
    monkeypatch.setattr(whole_requests, "PENDING_CALLS", pending)

    def count() -> int:
        clock.now += READ_AGAIN_S
        return pending.count()

    before = count()
    counted: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        counted.append(count())
        with pending.in_method():
            counted.append(count())

    client = Client(ENDED)
    await client.request(WholeRequests(app, SERVICE))

    assert counted == [before + 1, before]


SERVING: Any = FakeRpcs()
ALL = [*connect_routes(SERVING), *plain_routes(SERVING), *design_routes(SERVING)]
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


TIMEOUT = {"connect-timeout-ms": "soon"}


async def test_credentials_are_checked_before_the_timeout() -> None:
    head = await refused(service_with(Role.ADMIN), "POST", "/v1/retrieve", **TIMEOUT)

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
