"""What Vapi posts to its server, and what it gets, before a fake of the service."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from serving.desk.ray_environment import LOOPBACK, free_ports
from tests.fakes.service import Failure, FakeService
from tests.support.tracked_files import ROOT
from tests.support.waiting import until
from trivium import AsyncClient, Exclusion, Filter
from trivium.v1.retrieval_service_pb2 import RetrieveResponse
from trivium_vapi import MAX_BODY_BYTES, NOTHING, VapiMemory

PAGE = ROOT / "clients/vapi/README.md"
SECRET = "s3cret"
BLOCK = "<memory>\n- Nora sails.\n</memory>"
FOUND = RetrieveResponse(briefing=BLOCK)
DOWN = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
CALL = {"id": "call-1"}


def message(type_: str, **fields: Any) -> dict[str, Any]:
    return {"message": {"type": type_, "call": CALL, **fields}}


KNOWLEDGE = message(
    "knowledge-base-request",
    messages=[
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Who sails?"},
    ],
)
ENDED = message(
    "end-of-call-report",
    artifact={
        "messages": [
            {"role": "system", "message": "You are brief.", "time": 1_767_225_600_000},
            {"role": "user", "message": "Who sails?", "time": 1_767_225_601_000},
            {"role": "bot", "message": "Nora.", "time": 1_767_225_602_500},
            {"role": "bot", "message": " ", "time": 1_767_225_603_000},
        ]
    },
)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def tool_call(arguments: Any) -> dict[str, Any]:
    function = {"name": "recall", "arguments": arguments}
    return message("tool-calls", toolCallList=[{"id": "t1", "function": function}])


async def posted(
    service: FakeService, body: Any, secret: str = SECRET, **options: Any
) -> httpx.Response:
    """The answer to what Vapi posts."""
    async with AsyncClient(service.address, tenant="acme") as client:
        transport = httpx.ASGITransport(VapiMemory(client, SECRET, **options))
        async with httpx.AsyncClient(transport=transport, base_url="http://bot") as vapi:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return await vapi.post("/", content=content, headers={"x-vapi-secret": secret})


@pytest.mark.parametrize(
    ("answer", "documents"),
    [
        (FOUND, [{"content": BLOCK, "similarity": 1}]),
        (RetrieveResponse(), []),
        (DOWN, []),
    ],
)
async def test_knowledge_is_one_block_or_none(
    fake_service: FakeService, answer: Any, documents: list[Any]
) -> None:
    fake_service.will_answer("Retrieve", answer)
    given = Filter(kinds=["turn"], none_of=Exclusion(sessions=["old"]))

    response = await posted(fake_service, KNOWLEDGE, limit=3, filter=given)

    assert response.json() == {"documents": documents}
    asked = fake_service.request()
    assert (asked.query, asked.limit, asked.tenant) == ("Who sails?", 3, "acme")
    assert list(asked.filter.none_of.sessions) == ["old", "call-1"]
    assert list(asked.filter.kinds) == ["turn"]
    assert fake_service.deadlines_s[0] < 1


@pytest.mark.parametrize("arguments", [{"question": "Who sails?"}, '{"question": "Who sails?"}'])
@pytest.mark.parametrize(
    ("answer", "result"), [(FOUND, " ".join(BLOCK.split("\n"))), (DOWN, NOTHING)]
)
async def test_tool_call_has_one_line(
    fake_service: FakeService, arguments: Any, answer: Any, result: str
) -> None:
    fake_service.will_answer("Retrieve", answer)

    response = await posted(fake_service, tool_call(arguments))

    assert response.json() == {"results": [{"toolCallId": "t1", "result": result}]}
    assert fake_service.request().query == "Who sails?"


async def test_call_begins_with_the_opening_block(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", FOUND, DOWN)
    begins = message("assistant-request", customer={"number": "+351"})
    options: dict[str, Any] = {
        "assistant_id": "a1",
        "tenant_of": lambda given: given["customer"]["number"],
    }

    known = await posted(fake_service, begins, **options)
    without = await posted(fake_service, begins, **options)
    other = await posted(fake_service, begins)

    assert known.json() == {
        "assistantId": "a1",
        "assistantOverrides": {"variableValues": {"memory": BLOCK}},
    }
    assert without.json()["assistantOverrides"] == {"variableValues": {"memory": ""}}
    assert other.json() == {}
    assert {(each.tenant, each.profile) for each in fake_service.requests} == {("+351", "opening")}


async def test_turns_of_an_ended_call_are_stored(fake_service: FakeService) -> None:
    response = await posted(fake_service, ENDED, user="Ann", bot="Bot")

    assert (response.status_code, response.json()) == (200, {})
    turns = fake_service.ingested()
    assert [(turn.id, turn.speaker, turn.text, turn.session) for turn in turns] == [
        ("call-1/1", "Ann", "Who sails?", "call-1"),
        ("call-1/2", "Bot", "Nora.", "call-1"),
    ]
    assert [turn.event_time.ToMilliseconds() for turn in turns] == [
        1_767_225_601_000,
        1_767_225_602_500,
    ]


async def test_call_that_is_not_stored_is_sent_again(fake_service: FakeService) -> None:
    fake_service.will_answer("Ingest", DOWN)

    assert (await posted(fake_service, ENDED)).status_code == 503


@pytest.mark.parametrize(
    ("body", "secret", "status"),
    [
        (KNOWLEDGE, "", 401),
        (KNOWLEDGE, "s3cre", 401),
        (b"{", SECRET, 400),
        (b"[]", SECRET, 400),
        (b"\xff", SECRET, 400),
        ({"message": {}}, SECRET, 400),
        ({"message": 1}, SECRET, 400),
        (message("knowledge-base-request"), SECRET, 400),
        (message("end-of-call-report", artifact={"messages": [{"role": "bot"}]}), SECRET, 400),
        (tool_call("{"), SECRET, 400),
        (tool_call({}), SECRET, 400),
        (b" " * (MAX_BODY_BYTES + 1), SECRET, 400),
        (message("status-update"), SECRET, 200),
        ({"message": {"type": "hang"}}, SECRET, 200),
    ],
)
async def test_other_requests_reach_no_service(
    fake_service: FakeService, body: Any, secret: str, status: int
) -> None:
    assert (await posted(fake_service, body, secret)).status_code == status
    assert fake_service.requests == []


async def test_memory_without_a_secret_is_refused(fake_service: FakeService) -> None:
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        with pytest.raises(ValueError, match="secret"):
            VapiMemory(client, "")


def test_program_of_the_page_answers(fake_service: FakeService, tmp_path: Path) -> None:
    fake_service.will_answer("Retrieve", FOUND)
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    port = free_ports(1)
    program = tmp_path / "memory.py"
    program.write_text(
        code.replace("127.0.0.1:9000", fake_service.address).replace("8080", str(port))
    )
    asked = {**KNOWLEDGE["message"], "call": {**CALL, "customer": {"number": "+351"}}}
    environment = {**os.environ, "VAPI_SECRET": SECRET}  # noqa: TID251 - for a child

    with subprocess.Popen([sys.executable, str(program)], env=environment) as process:
        try:
            until(lambda: process.poll() is not None or _listens(port))
            headers = {"x-vapi-secret": SECRET}
            address = f"http://{LOOPBACK}:{port}"
            response = httpx.post(address, json={"message": asked}, headers=headers, timeout=30)
        finally:
            process.terminate()

    assert response.json() == {"documents": [{"content": BLOCK, "similarity": 1}]}
    assert fake_service.request().tenant == "+351"
