"""The faults that are drawn, the figures of a run, and what callers by HTTP are told."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.chaos.checker import Finding, Kind, Write
from tests.chaos.desk import Desk
from tests.chaos.faults import FAULTS, drawn
from tests.chaos.http_client import HttpClient
from tests.chaos.items import Group
from tests.chaos.run import Outcome
from trivium.errors import DeadlineError, TriviumError, UnavailableError
from trivium.v1.ingest_service_pb2 import ForgetResponse

GROUP = Group("acme", "g1")


@pytest.mark.parametrize("placement", FAULTS)
def test_every_fault_happens_before_one_happens_again(placement: str) -> None:
    kinds = len(FAULTS[placement])

    faults = drawn(random.Random(1), placement, 2 * kinds + 1)

    assert len(faults) == 2 * kinds + 1
    assert set(faults[:kinds]) == set(faults[kinds:-1]) == set(FAULTS[placement])
    assert faults == drawn(random.Random(1), placement, 2 * kinds + 1)
    assert faults != drawn(random.Random(2), placement, 2 * kinds + 1)


def test_figures_of_a_run_are_counted() -> None:
    outcome = Outcome(placement="split", seed=1, rounds=3, reads=5)
    outcome.writes = [
        Write(group=GROUP, version=1, started=0, ended=1),
        Write(group=GROUP, version=2, started=2, ended=3, attempts=2),
        Write(group=GROUP, version=None, started=4, attempts=2),
    ]
    outcome.findings = [Finding(Kind.HALF_WRITTEN, "postgres", GROUP.item("a"), "of two versions")]

    expected = {"operations": 8, "acknowledged": 2, "retried": 1, "given_up": 1, "answers": 5}
    expected |= {"half_written": 1, "lost": 0, "double": 0, "stale": 0, "resurrected": 0}
    assert expected.items() <= outcome.result().measured.items()


def test_files_of_a_desk_are_kept_without_its_sockets(tmp_path: Path) -> None:
    data_dir, temporary = tmp_path / "d", tmp_path / "t"
    for folder in (data_dir, temporary):
        folder.mkdir()
        (folder / "log").write_text(folder.name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(temporary / "socket"))

        Desk(data_dir, temporary, "single").keep(tmp_path / "kept")

    kept = {str(path.relative_to(tmp_path / "kept")) for path in tmp_path.glob("kept/*/*")}
    assert kept == {"data/log", "temporary/log"}


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


async def test_error_of_a_proxy_is_unavailable() -> None:
    async with answering(502, b"<html>") as client:
        assert isinstance(await failure(client), UnavailableError)


async def test_refused_connection_is_unavailable() -> None:
    async with HttpClient("127.0.0.1:1", "http://127.0.0.1:1") as client:
        assert isinstance(await failure(client), UnavailableError)


async def test_missing_answer_is_a_passed_deadline() -> None:
    async with answering(0, b"") as client:
        assert isinstance(await failure(client, timeout=0.05), DeadlineError)
