"""What clients may send, and what they cannot hold up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from serving.domain.errors import PermissionDeniedError, StoreUnavailableError, TriviumError
from serving.domain.identity import Caller
from serving.http import whole_requests
from serving.http.calls import ARRIVED
from serving.http.whole_requests import WholeRequests
from serving.rpc.identity.access import ANYONE, OPEN, Access
from serving.rpc.pending import READ_AGAIN_S, PendingCalls
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import cancel

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
        """The number of messages that were not received."""
        return len(self._messages)


async def test_body_in_parts_arrives_whole() -> None:
    behind, client = Behind(), Client(part(b"ab"), part(b"cd"), ENDED)

    await client.request(WholeRequests(behind, OPEN))

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

    await client.request(WholeRequests(behind, OPEN), **headers)

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
        await client.request(WholeRequests(Behind(), OPEN), content_length="9" * 30)

        assert client.status == 413
    assert long.unread >= 7


@pytest.mark.parametrize("by_its_length", [True, False])
async def test_large_request_without_credentials_is_refused_unread(by_its_length: bool) -> None:
    access = Access(keys=lambda text: pytest.fail(text))
    size = whole_requests.MAX_BYTES_WITHOUT_CREDENTIALS + 1
    behind, client = Behind(), Client(part(b"x" * size), ENDED)
    headers = {"content_length": str(size)} if by_its_length else {}

    await client.request(WholeRequests(behind, access), **headers)

    assert client.status == 401
    assert behind.bodies == []


@pytest.mark.parametrize(
    ("error", "status"),
    [(PermissionDeniedError("names no tenant"), 403), (StoreUnavailableError("no keys"), 503)],
)
async def test_credentials_that_cannot_be_used_are_no_failure(
    error: TriviumError, status: int
) -> None:
    def fail(_: str) -> Caller:
        raise error

    access = Access(keys=fail)
    size = whole_requests.MAX_BYTES_WITHOUT_CREDENTIALS + 1
    behind, small, large = Behind(), Client(part(b"ab"), ENDED), Client(part(b"x" * size), ENDED)

    for client in (small, large):
        await client.request(WholeRequests(behind, access), authorization="Bearer trv_any")

    # A small one is answered by the application behind.
    assert (small.status, large.status) == (200, status)
    assert behind.bodies == [b"ab"]


async def test_slow_request_is_refused_without_taking_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole_requests, "READ_WITHIN_S", 0.0)
    monkeypatch.setattr(whole_requests, "DISCARD_WITHIN_S", 0.0)
    behind, client = Behind(), Client(part(b"{"))

    await client.request(WholeRequests(behind, OPEN))

    assert client.status == 408
    assert behind.bodies == []


async def test_refused_request_holds_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_requests, "MAX_BODY_BYTES", 3)
    monkeypatch.setattr(whole_requests, "MAX_HELD_BYTES", 3)
    behind = Behind()
    whole = WholeRequests(behind, OPEN)
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
    whole = WholeRequests(behind, OPEN)
    first = Client(part(b"ab"))
    second, third = (Client(part(body), ENDED) for body in (b"cd", b"ef"))

    reading = asyncio.create_task(first.request(whole))
    await asyncio.sleep(0)
    await second.request(whole)
    await cancel(reading)
    await third.request(whole)

    assert (second.status, third.status) == (429, 200)
    assert behind.bodies == [b"ef"]


async def test_requests_without_credentials_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole_requests, "MAX_HELD_BYTES", 3)
    monkeypatch.setattr(whole_requests, "MAX_HELD_BYTES_WITHOUT_CREDENTIALS", 3)
    behind, access = Behind(), Access(keys=lambda _: ANYONE)
    whole = WholeRequests(behind, access)
    held, refused, known = Client(part(b"ab")), Client(part(b"cd")), Client(part(b"ef"), ENDED)

    holding = asyncio.create_task(held.request(whole))
    await asyncio.sleep(0)
    refusing = asyncio.create_task(refused.request(whole))
    await asyncio.sleep(0)
    await known.request(whole, authorization="Bearer trv_any")

    assert (refused.status, known.status) == (429, 200)
    assert behind.bodies == [b"ef"]
    await cancel(holding)
    await cancel(refusing)


async def test_client_that_leaves_while_sending_is_no_call() -> None:
    behind, client = Behind(), Client(part(b"ab"), {"type": "http.disconnect"})

    await client.request(WholeRequests(behind, OPEN))

    assert (behind.bodies, client.answer) == ([], [])


async def test_slow_reader_holds_no_place() -> None:
    behind, client = Behind(), Client(ENDED, reads=False)

    task = asyncio.create_task(client.request(WholeRequests(behind, OPEN)))
    async with asyncio.timeout(10):
        await behind.ended.wait()
    await cancel(task)

    assert behind.ended.is_set()


async def test_full_queue_of_serve_is_an_error_of_connect() -> None:
    dropped = PlainTextResponse("Request dropped due to backpressure", status_code=503)
    client = Client(ENDED)

    await client.request(WholeRequests(Behind(dropped), OPEN))

    assert client.status == 429
    assert b'"code":"resource_exhausted"' in client.answer[1]["body"]


async def test_health_of_serve_is_passed_on() -> None:
    unhealthy = PlainTextResponse("draining", status_code=503)
    client = Client(ENDED)

    await client.request(WholeRequests(Behind(unhealthy), OPEN), "/-/healthz")

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
    await client.request(WholeRequests(app, OPEN))

    assert counted == [before + 1, before]
