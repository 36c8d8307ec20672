"""The tool, the retriever and the middleware in real agents of LangChain, with a scripted model."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from tests.clients.agents import BLOCK, DOWN, FOUND, with_each_answer
from tests.fakes.service import FakeService
from trivium import AsyncClient, Client, UnavailableError
from trivium.v1.fact_pb2 import Fact
from trivium.v1.retrieval_service_pb2 import Hit, RetrieveResponse
from trivium.v1.segment_pb2 import Segment
from trivium_langgraph.middleware import RecallMiddleware
from trivium_langgraph.retriever import TriviumRetriever
from trivium_langgraph.tools import recall_tool

ASKED = AIMessage(
    "", tool_calls=[{"name": "recall", "args": {"question": "Who sails?"}, "id": "1"}]
)


def graph_with(client: Client | AsyncClient) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([recall_tool(client, profile="annie", limit=3, timeout=9)]))
    builder.add_edge(START, "tools")
    builder.add_edge("tools", END)
    return builder.compile()


def said(state: dict[str, Any]) -> str:
    message = state["messages"][-1]
    assert isinstance(message, ToolMessage)
    return str(message.content)


@with_each_answer
async def test_an_agent_recalls_with_and_without_an_event_loop(
    client: Client,
    async_client: AsyncClient,
    fake_service: FakeService,
    answer: Any,
    expected: str,
) -> None:
    fake_service.will_answer("Retrieve", *[answer] * 9)  # a client tries again

    blocking = graph_with(client).invoke({"messages": [ASKED]})
    in_a_loop = await graph_with(async_client).ainvoke({"messages": [ASKED]})

    assert (said(blocking), said(in_a_loop)) == (expected, expected)
    request = fake_service.requests[0]
    assert (request.tenant, request.query, request.profile) == ("acme", "Who sails?", "annie")
    assert request.limit == 3


def test_the_agent_chooses_the_question_only(client: Client) -> None:
    assert list(recall_tool(client).args) == ["question"]


SEGMENT = Segment(
    id="t1", text="We sailed.", speaker="Nora", session="s", labels={"trip": "goa", "kind": "x"}
)
FACT = Fact(id="f1", subject="Nora", relation="lives_in", object="Goa")
HITS = RetrieveResponse(hits=[Hit(segment=SEGMENT, rank=1, score=0.5), Hit(fact=FACT, rank=2)])


async def test_documents_have_ids_texts_and_metadata(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", *[HITS] * 3)
    with Client(fake_service.address, tenant="acme") as client:
        retriever = TriviumRetriever(client=client, limit=3, profile="annie")
        documents = retriever.invoke("Who sails?")
        assert await retriever.ainvoke("Who sails?") == documents
    async with AsyncClient(fake_service.address, tenant="acme") as async_client:
        retriever = TriviumRetriever(client=async_client)
        assert await retriever.ainvoke("Who sails?") == documents
        with pytest.raises(TypeError, match="ainvoke"):
            retriever.invoke("Who sails?")

    segment, fact = documents
    assert (segment.id, segment.page_content) == ("t1", "We sailed.")
    assert segment.metadata["speaker"] == "Nora"
    assert (segment.metadata["kind"], segment.metadata["trip"]) == ("segment", "goa")
    assert (fact.id, fact.metadata["kind"], fact.metadata["rank"]) == ("f1", "fact", 2)
    request = fake_service.requests[0]
    assert (request.query, request.limit, request.profile) == ("Who sails?", 3, "annie")


def test_service_that_is_down_raises(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", *[DOWN] * 9)
    with Client(fake_service.address, tenant="acme") as client, pytest.raises(UnavailableError):
        TriviumRetriever(client=client).invoke("Who sails?")


QUESTION = HumanMessage("Who sails?")
LOOK = ToolCall(name="look", args={}, id="1")
THREAD: Any = {"configurable": {"thread_id": "1"}}


@tool
def look() -> str:
    """Look out of the window."""
    return "A boat."


@tool
def ask() -> str:
    """Ask a person."""
    return str(interrupt("?"))


class ScriptedModel(BaseChatModel):
    """Answers with its script, and keeps the messages that it was called with."""

    script: list[AIMessage]
    calls: list[list[BaseMessage]] = []  # noqa: RUF012 -- a field of pydantic, copied

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.calls.append(messages)
        answer = self.script[len(self.calls) - 1]
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def systems(self) -> list[str]:
        """The system message of each call; empty without one."""
        return [
            "\n".join(each.text for each in call if isinstance(each, SystemMessage))
            for call in self.calls
        ]


def model(*answers: AIMessage | str) -> ScriptedModel:
    return ScriptedModel(
        script=[each if isinstance(each, AIMessage) else AIMessage(each) for each in answers]
    )


def asked(question: AnyMessage = QUESTION) -> Any:
    return {"messages": [question]}


def queries(service: FakeService) -> list[str]:
    return [request.query for request in service.requests]


def test_block_is_in_model_calls_but_no_message(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", FOUND)
    scripted = model(AIMessage("", tool_calls=[LOOK]), "Nora does.")
    with Client(fake_service.address, tenant="acme") as client:
        memory = RecallMiddleware(client, profile="annie", limit=3, timeout=9)
        agent = create_agent(scripted, [look], system_prompt="Be kind.", middleware=[memory])
        state = agent.invoke(asked())

    assert scripted.systems() == [f"Be kind.\n\n{BLOCK}"] * 2
    assert [each.type for each in state["messages"]] == ["human", "ai", "tool", "ai"]
    assert "trivium_block" not in state
    request = fake_service.request()
    assert (request.tenant, request.query, request.profile) == ("acme", "Who sails?", "annie")
    assert request.limit == 3


def test_block_replaces_the_previous_without_a_checkpoint(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", FOUND, {"briefing": ""})
    scripted = model("Nora.", "I do not know.")
    saver = InMemorySaver()
    with Client(fake_service.address, tenant="acme") as client:
        agent = create_agent(scripted, middleware=[RecallMiddleware(client)], checkpointer=saver)
        agent.invoke(asked(), THREAD)
        agent.invoke(asked(HumanMessage("And who flies?")), THREAD)

    assert scripted.systems() == [BLOCK, ""]
    assert queries(fake_service) == ["Who sails?", "And who flies?"]
    assert all("Goa" not in str(checkpoint) for checkpoint in saver.list(THREAD))


def test_an_agent_that_goes_on_after_an_interrupt_recalls_again(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", *[FOUND] * 2)
    asks = AIMessage("", tool_calls=[ToolCall(name="ask", args={}, id="1")])
    scripted = model(asks, "Nora.")
    with Client(fake_service.address, tenant="acme") as client:
        agent = create_agent(
            scripted, [ask], middleware=[RecallMiddleware(client)], checkpointer=InMemorySaver()
        )
        agent.invoke(asked(), THREAD)
        agent.invoke(Command(resume="yes"), THREAD)

    assert scripted.systems() == [BLOCK, BLOCK]
    assert queries(fake_service) == ["Who sails?"] * 2


async def test_middleware_works_in_an_event_loop(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", *[FOUND] * 2)
    scripted = model("Nora.", "Nora.")
    with Client(fake_service.address, tenant="acme") as blocking:
        await create_agent(scripted, middleware=[RecallMiddleware(blocking)]).ainvoke(asked())
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        await create_agent(scripted, middleware=[RecallMiddleware(client)]).ainvoke(asked())

    assert scripted.systems() == [BLOCK, BLOCK]


async def test_agent_without_loop_rejects_an_async_client(fake_service: FakeService) -> None:
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        agent = create_agent(model("Nora."), middleware=[RecallMiddleware(client)])
        with pytest.raises(TypeError, match="ainvoke"):
            agent.invoke(asked())


async def test_without_its_memory_the_agent_goes_on(
    fake_service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    fake_service.will_answer("Retrieve", *[DOWN] * 8)
    scripted = model("I do not know.", "I do not know.")
    with Client(fake_service.address, tenant="acme") as blocking:
        create_agent(scripted, middleware=[RecallMiddleware(blocking)]).invoke(asked())
    async with AsyncClient(fake_service.address, tenant="acme") as client:
        await create_agent(scripted, middleware=[RecallMiddleware(client)]).ainvoke(asked())

    assert scripted.systems() == ["", ""]
    assert caplog.text.count("goes on without its memory") == 2


def test_a_system_message_of_parts_keeps_them(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", FOUND)
    scripted = model("Nora.")
    parts: list[str | dict[Any, Any]] = [{"type": "text", "text": "Be kind.", "cache_control": {}}]
    with Client(fake_service.address, tenant="acme") as client:
        memory = RecallMiddleware(client)
        system = SystemMessage(content=parts)
        create_agent(scripted, system_prompt=system, middleware=[memory]).invoke(asked())

    assert scripted.calls[0][0].content == [*parts, {"type": "text", "text": BLOCK}]


def test_a_conversation_without_a_user_asks_nothing(fake_service: FakeService) -> None:
    scripted = model("Hello.")
    with Client(fake_service.address, tenant="acme") as client:
        agent = create_agent(scripted, middleware=[RecallMiddleware(client)])
        agent.invoke(asked(AIMessage("Hello?")))

    assert fake_service.requests == []
    assert scripted.systems() == [""]
