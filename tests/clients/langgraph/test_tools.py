"""The tool in the real `ToolNode` of LangGraph."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from tests.fakes.service import Failure, FakeService
from trivium import AsyncClient, Client
from trivium.v1.retrieval_service_pb2 import RetrieveResponse
from trivium_langgraph.tools import NOTHING, recall_tool

ASKED = AIMessage(
    "", tool_calls=[{"name": "recall", "args": {"question": "Who sails?"}, "id": "1"}]
)
BLOCK = "<memory>\nNora: We sailed to Goa.\n</memory>"
ANSWERS: list[tuple[Any, str]] = [
    (RetrieveResponse(briefing=BLOCK), BLOCK),
    (RetrieveResponse(), NOTHING),
    (
        Failure(grpc.StatusCode.UNAVAILABLE, "down"),
        "The memory cannot be asked at the moment. Go on without it.",
    ),
    (
        Failure(grpc.StatusCode.INVALID_ARGUMENT, "query: is too long"),
        "The memory cannot answer this question: query: is too long. Ask another one.",
    ),
]
IDS = ["block", "nothing", "down", "bad question"]


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


@pytest.mark.parametrize(("answer", "expected"), ANSWERS, ids=IDS)
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
