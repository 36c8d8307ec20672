"""The tool and the hooks in real runs of the OpenAI Agents SDK, whose model follows a script."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.agents import BLOCK, FOUND, clock, with_each_answer
from tests.fakes.service import FakeService
from trivium import AsyncClient
from trivium.v1.retrieval_service_pb2 import RetrieveRequest

pytest.importorskip("agents", reason="`make test-integrations` installs the OpenAI Agents SDK")

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from trivium_openai_agents import TriviumRunHooks, recall_tool

pytestmark = pytest.mark.openai_agents

set_tracing_disabled(disabled=True)


@with_each_answer
async def test_tool_tells_bad_questions_from_outages(
    fake_service: FakeService, answer: Any, expected: str
) -> None:
    fake_service.will_answer("Retrieve", *[answer] * 9)
    asked = function_call("recall", {"question": "Who sails?"}, call_id="1")
    model = ScriptedModel([[asked], [assistant_message("Nora.")]])
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        agent = Agent(name="Bot", model=model, tools=[recall_tool(client, limit=3)])
        result = await Runner.run(agent, "Who sails?")

    assert result.final_output == "Nora."
    assert expected in model.calls[1].input[-1]["output"]
    request = fake_service.requests[0]
    assert (request.query, request.limit) == ("Who sails?", 3)


async def test_hooks_recall_once_and_store_turns(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", FOUND)
    model = ScriptedModel([[function_call("clock", {}, call_id="1")], [assistant_message("Nora.")]])
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        hooks = TriviumRunHooks(client, session="s", user="Ann", limit=3)
        agent = Agent(name="Bot", model=model, tools=[function_tool(clock)])
        result = await Runner.run(agent, "Who sails?", hooks=hooks)

    for call in model.calls:
        assert [each for each in call.input if each.get("content") == BLOCK], call.input
    assert BLOCK not in str(result.to_input_list())
    (asked,) = fake_service.sent(RetrieveRequest)
    assert (asked.query, asked.limit) == ("Who sails?", 3)
    assert list(asked.filter.none_of.sessions) == ["s"]
    assert fake_service.turns() == [("Ann", "Who sails?"), ("Bot", "Nora.")]


async def test_run_goes_on_without_the_service() -> None:
    model = ScriptedModel([[assistant_message("I see.")]])
    async with AsyncClient("127.0.0.1:1", tenant="acme", timeout=0.2, write_timeout=0.2) as client:
        result = await Runner.run(
            Agent(name="Bot", model=model), "Who sails?", hooks=TriviumRunHooks(client)
        )

    assert result.final_output == "I see."
