"""The tool and the capability in real runs of Pydantic AI, whose model follows a script."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from tests.fakes.service import Failure, FakeService
from tests.support.tracked_files import ROOT
from trivium import AsyncClient
from trivium.v1.ingest_service_pb2 import IngestRequest
from trivium.v1.retrieval_service_pb2 import RetrieveRequest, RetrieveResponse

pytest.importorskip("pydantic_ai", reason="`make test-integrations` installs Pydantic AI")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from trivium_pydantic_ai import NOTHING, TriviumMemory, recall_tool

pytestmark = pytest.mark.pydantic_ai

PAGE = ROOT / "clients/pydantic_ai/README.md"
BLOCK = "<memory>\nNora: We sailed to Goa.\n</memory>"
DOWN = Failure(grpc.StatusCode.UNAVAILABLE, "down")
BAD = Failure(grpc.StatusCode.INVALID_ARGUMENT, "query: is too long")
FOUND = RetrieveResponse(briefing=BLOCK)


class Script:
    """Answers with what it is given, and keeps what it is asked."""

    def __init__(self, *parts: Any) -> None:
        self._parts = list(parts)
        self.asked: list[Sequence[Any]] = []

    def __call__(self, messages: list[Any], info: Any) -> ModelResponse:
        self.asked.append([part for each in messages for part in each.parts])
        return ModelResponse(parts=[self._parts.pop(0)])


def clock() -> str:
    """Says what time it is."""
    return "noon"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (FOUND, BLOCK),
        (RetrieveResponse(), NOTHING),
        (DOWN, "cannot be asked at the moment"),
        (BAD, "query: is too long"),
    ],
)
async def test_tool_tells_bad_questions_from_outages(
    fake_service: FakeService, answer: Any, expected: str
) -> None:
    fake_service.will_answer("Retrieve", *[answer] * 9)
    script = Script(ToolCallPart("recall", {"question": "Who sails?"}), TextPart("Nora."))
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        agent = Agent(FunctionModel(script), tools=[recall_tool(client, limit=3)])
        result = await agent.run("Who sails?")

    assert result.output == "Nora."
    assert expected in script.asked[1][-1].content
    request = fake_service.requests[0]
    assert (request.query, request.limit) == ("Who sails?", 3)


async def test_memory_recalls_once_and_stores_turns(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", FOUND)
    script = Script(ToolCallPart("clock", {}), TextPart("Nora."))
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        memory = TriviumMemory(client, session="s", user="Ann", agent="Bot", limit=3)
        agent = Agent(FunctionModel(script), tools=[clock], capabilities=[memory])
        result = await agent.run("Who sails?")

    for parts in script.asked:
        contents = [getattr(part, "content", "") for part in parts]
        assert contents.index(BLOCK) == contents.index("Who sails?") - 1
    assert BLOCK not in str(result.all_messages())
    (asked,) = [each for each in fake_service.requests if isinstance(each, RetrieveRequest)]
    assert (asked.query, asked.limit) == ("Who sails?", 3)
    assert list(asked.filter.none_of.sessions) == ["s"]
    (written,) = [each for each in fake_service.requests if isinstance(each, IngestRequest)]
    turns = [(item.segment.speaker, item.segment.text) for item in written.items]
    assert turns == [("Ann", "Who sails?"), ("Bot", "Nora.")]


async def test_later_run_recalls_its_own_prompt(fake_service: FakeService) -> None:
    script = Script(TextPart("Nora."), TextPart("Goa."))
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        agent = Agent(FunctionModel(script), capabilities=[TriviumMemory(client)])
        first = await agent.run("Who sails?")
        await agent.run("Where to?", message_history=first.all_messages())

    asked = [each.query for each in fake_service.requests if isinstance(each, RetrieveRequest)]
    assert asked == ["Who sails?", "Where to?"]


async def test_run_goes_on_without_the_service() -> None:
    script = Script(TextPart("I see."))
    async with AsyncClient("127.0.0.1:1", tenant="acme", timeout=0.2) as client:
        agent = Agent(FunctionModel(script), capabilities=[TriviumMemory(client)])
        result = await agent.run("Who sails?")

    assert result.output == "I see."


async def test_program_of_the_page_runs(
    fake_service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    code = code.replace("127.0.0.1:9000", fake_service.address).replace('"openai:gpt-5.2"', "MODEL")

    await asyncio.to_thread(exec, code, {"MODEL": FunctionModel(Script(TextPart("The eighth.")))})

    assert "The eighth." in capsys.readouterr().out
    written = [each for each in fake_service.requests if isinstance(each, IngestRequest)]
    assert [item.segment.speaker for each in written for item in each.items] == [
        "Alice",
        "Assistant",
    ]
