"""What callers by HTTP are told: the errors of the client are those by gRPC."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from serving.domain.errors import StartingError
from serving.http.failures import FailedCallError, response_of
from serving.rpc.status import to_status
from tests.chaos.http_client import HttpClient
from trivium.errors import DeadlineError, TriviumError, UnavailableError
from trivium.v1.ingest_service_pb2 import ForgetResponse

STARTING = response_of(FailedCallError(to_status(StartingError())))


@contextlib.asynccontextmanager
async def answering(status: int, body: bytes) -> AsyncIterator[HttpClient]:
    """A client of a server with one answer to everything; status 0 is no answer."""

    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/trivium.v1.IngestService/Forget"
        if not status:
            await asyncio.Event().wait()
        return web.Response(status=status, body=body)

    application = web.Application()
    application.router.add_post("/{path:.*}", answer)
    async with TestServer(application) as server:
        url = str(server.make_url(""))
        async with HttpClient("127.0.0.1:1", url) as client:
            yield client.for_tenant("acme")


async def failure(client: HttpClient, timeout: float = 30) -> TriviumError:
    with pytest.raises(TriviumError) as raised:
        await client.forget(segment_ids=["a"], timeout=timeout)
    return raised.value


async def test_answer_by_http_has_its_token() -> None:
    body = ForgetResponse(consistency_token="t").SerializeToString()

    async with answering(200, body) as client:
        assert (await client.forget(segment_ids=["a"])).consistency_token == "t"


async def test_error_by_http_has_its_reason_and_delay() -> None:
    async with answering(STARTING.status_code, bytes(STARTING.body)) as client:
        error = await failure(client)

    assert isinstance(error, UnavailableError)
    assert (error.reason, error.retry_delay) == ("STARTING", timedelta(seconds=0.5))


async def test_error_of_a_proxy_is_unavailable() -> None:
    async with answering(502, b"<html>") as client:
        assert isinstance(await failure(client), UnavailableError)


async def test_refused_connection_is_unavailable() -> None:
    async with HttpClient("127.0.0.1:1", "http://127.0.0.1:1") as client:
        assert isinstance(await failure(client), UnavailableError)


async def test_missing_answer_is_a_passed_deadline() -> None:
    async with answering(0, b"") as client:
        assert isinstance(await failure(client, timeout=0.05), DeadlineError)
