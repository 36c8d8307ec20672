"""The tool and the capability in real runs of Pydantic AI, whose model follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.clients.agents import BLOCK, FOUND, clock, program_of, with_each_answer
from tests.fakes.service import FakeService
from trivium import AsyncClient
from trivium.v1.retrieval_service_pb2 import RetrieveRequest

pytest.importorskip("pydantic_ai", reason="`make test-integrations` installs Pydantic AI")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from trivium_pydantic_ai import TriviumMemory, recall_tool

pytestmark = pytest.mark.pydantic_ai


class Script:
    """Answers with what it is given, and keeps what it is asked."""

    def __init__(self, *parts: Any) -> None:
        self._parts = list(parts)
        self.asked: list[Sequence[Any]] = []

    def __call__(self, messages: list[Any], info: Any) -> ModelResponse:
        self.asked.append([part for each in messages for part in each.parts])
        return ModelResponse(parts=[self._parts.pop(0)])


@with_each_answer
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
    (asked,) = fake_service.sent(RetrieveRequest)
    assert (asked.query, asked.limit) == ("Who sails?", 3)
    assert list(asked.filter.none_of.sessions) == ["s"]
    assert fake_service.turns() == [("Ann", "Who sails?"), ("Bot", "Nora.")]


async def test_later_run_recalls_its_own_prompt(fake_service: FakeService) -> None:
    script = Script(TextPart("Nora."), TextPart("Goa."))
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        agent = Agent(FunctionModel(script), capabilities=[TriviumMemory(client)])
        first = await agent.run("Who sails?")
        await agent.run("Where to?", message_history=first.all_messages())

    asked = [each.query for each in fake_service.sent(RetrieveRequest)]
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
    page = "clients/pydantic_ai/README.md"
    code = program_of(page, fake_service.address, model='"openai:gpt-5.2"')

    await asyncio.to_thread(exec, code, {"MODEL": FunctionModel(Script(TextPart("The eighth.")))})

    assert "The eighth." in capsys.readouterr().out
    assert [speaker for speaker, _ in fake_service.turns()] == ["Alice", "Assistant"]
