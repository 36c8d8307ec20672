"""The tool and the plugin in real runs of Google ADK, whose model follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.clients.agents import BLOCK, FOUND, clock, program_of, with_each_answer
from tests.fakes.service import FakeService
from trivium import AsyncClient
from trivium.v1.retrieval_service_pb2 import RetrieveRequest

pytest.importorskip("google.adk", reason="`make test-integrations` installs Google ADK")

from google.adk.agents import Agent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from trivium_google_adk import TriviumPlugin, recall_tool

pytestmark = pytest.mark.google_adk


def said(text: str) -> types.Part:
    return types.Part.from_text(text=text)


def called(name: str, **arguments: Any) -> types.Part:
    return types.Part.from_function_call(name=name, args=arguments)


class Script(BaseLlm):  # type: ignore[misc]  # ADK is not always installed
    """Answers with what it is given, and keeps what it is asked."""

    parts: list[Any]
    asked: list[Any]

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.asked.append([part for each in llm_request.contents for part in each.parts])
        content = types.Content(role="model", parts=[self.parts.pop(0)])
        yield LlmResponse(content=content)


def script(*parts: types.Part) -> Script:
    return Script(model="script", parts=list(parts), asked=[])


async def answered(agent: Agent, *questions: str, plugins: tuple[Any, ...] = ()) -> list[str]:
    """The final texts of runs in one session."""
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=list(plugins)))
    session = await runner.session_service.create_session(app_name="app", user_id="Ann")
    texts = []
    for question in questions:
        message = types.Content(role="user", parts=[said(question)])
        run = runner.run_async(user_id="Ann", session_id=session.id, new_message=message)
        events = [event async for event in run]
        texts += [each.content.parts[0].text for each in events if each.is_final_response()]
    stored = await runner.session_service.get_session(
        app_name="app", user_id="Ann", session_id=session.id
    )
    assert BLOCK not in str(stored.events) or not plugins
    return texts


@with_each_answer
async def test_tool_tells_bad_questions_from_outages(
    fake_service: FakeService, answer: Any, expected: str
) -> None:
    fake_service.will_answer("Retrieve", *[answer] * 9)
    model = script(called("recall", question="Who sails?"), said("Nora."))
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        agent = Agent(name="Bot", model=model, tools=[recall_tool(client, limit=3)])
        texts = await answered(agent, "Who sails?")

    assert texts == ["Nora."]
    assert expected in str(model.asked[1][-1].function_response.response["result"])
    request = fake_service.requests[0]
    assert (request.query, request.limit) == ("Who sails?", 3)


async def test_plugin_recalls_once_and_stores_turns(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", FOUND)
    model = script(called("clock"), said("Nora."), said("Goa."))
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        agent = Agent(name="Bot", model=model, tools=[clock])
        plugin = TriviumPlugin(client, limit=3)
        texts = await answered(agent, "Who sails?", "Where to?", plugins=(plugin,))

    assert texts == ["Nora.", "Goa."]
    for parts in model.asked[:2]:
        contents = [part.text for part in parts]
        assert contents.index(BLOCK) == contents.index("Who sails?") - 1
    asked = fake_service.sent(RetrieveRequest)
    assert [(each.query, each.limit) for each in asked] == [("Who sails?", 3), ("Where to?", 3)]
    assert fake_service.turns() == [
        ("Ann", "Who sails?"),
        ("Bot", "Nora."),
        ("Ann", "Where to?"),
        ("Bot", "Goa."),
    ]
    assert [*asked[0].filter.none_of.sessions] == [
        *{each.session for each in fake_service.ingested()}
    ]


async def test_run_goes_on_without_the_service() -> None:
    async with AsyncClient("127.0.0.1:1", tenant="acme", timeout=0.2) as client:
        agent = Agent(name="Bot", model=script(said("I see.")))
        texts = await answered(agent, "Who sails?", plugins=(TriviumPlugin(client),))

    assert texts == ["I see."]


async def test_program_of_the_page_runs(
    fake_service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "clients/google_adk/README.md"
    code = program_of(page, fake_service.address, model='"gemini-3.5-flash"')

    await asyncio.to_thread(exec, code, {"MODEL": script(said("The eighth."))})

    assert "The eighth." in capsys.readouterr().out
    assert [speaker for speaker, _ in fake_service.turns()] == ["Alice", "Assistant"]
