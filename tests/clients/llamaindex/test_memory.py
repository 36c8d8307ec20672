"""The memory and the retriever in LlamaIndex itself."""

from __future__ import annotations

import pytest

from tests.clients.agents import BLOCK, DOWN, FOUND
from tests.fakes.service import FakeService
from trivium import Client, UnavailableError
from trivium.v1.retrieval_service_pb2 import RetrieveRequest

pytest.importorskip("llama_index.core", reason="`make test-integrations` installs LlamaIndex")

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM

from trivium_llamaindex import TriviumMemory, TriviumRetriever

pytestmark = pytest.mark.llamaindex


def test_chat_recalls_before_an_answer_and_stores_turns(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", FOUND)
    with Client(fake_service.address, tenant="acme") as client:
        memory = TriviumMemory(client, session="s", limit=3)
        engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
        answer = str(engine.chat("Who sails?"))

    assert BLOCK in answer  # the model says what it is given
    (asked,) = fake_service.sent(RetrieveRequest)
    assert (asked.query, asked.limit) == ("Who sails?", 3)
    assert list(asked.filter.none_of.sessions) == ["s"]
    assert fake_service.turns() == [("User", "Who sails?"), ("Assistant", answer)]
    assert {each.session for each in fake_service.ingested()} == {"s"}
    assert [each.role for each in memory.get_all()] == [MessageRole.USER, MessageRole.ASSISTANT]


async def test_memory_works_in_an_event_loop(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", FOUND)
    with Client(fake_service.address, tenant="acme") as client:
        memory = TriviumMemory(client)
        await memory.aput(ChatMessage(role="user", content="Who sails?"))
        messages = await memory.aget()

    assert [each.content for each in messages] == [BLOCK, "Who sails?"]


def test_setting_the_history_stores_new_messages(fake_service: FakeService) -> None:
    with Client(fake_service.address, tenant="acme") as client:
        memory = TriviumMemory(client, session="s")
        first = ChatMessage(role="user", content="One.")
        memory.put(first)
        memory.set([first, ChatMessage(role="assistant", content="Two.")])

    assert fake_service.turns() == [("User", "One."), ("Assistant", "Two.")]
    assert len(memory.get_all()) == 2


def test_chat_goes_on_without_the_service() -> None:
    with Client("127.0.0.1:1", tenant="acme", timeout=0.2, write_timeout=0.2) as client:
        memory = TriviumMemory(client)
        memory.put(ChatMessage(role="user", content="Who sails?"))

        assert [each.content for each in memory.get()] == ["Who sails?"]


async def test_retriever_returns_nodes_best_first(fake_service: FakeService) -> None:
    hits = [
        {"segment": {"id": "t1", "text": "We sailed.", "speaker": "Nora"}, "rank": 1, "score": 0.5}
    ]
    fake_service.will_answer("Retrieve", {"hits": hits}, {"hits": hits})
    with Client(fake_service.address, tenant="acme") as client:
        retriever = TriviumRetriever(client, limit=2)
        (node,) = retriever.retrieve("Who sails?")
        (again,) = await retriever.aretrieve("Who sails?")

    assert (node.node_id, node.text, node.score) == ("t1", "We sailed.", 0.5)
    assert (node.metadata["speaker"], again.node_id) == ("Nora", "t1")


def test_retriever_raises_if_the_service_is_down(fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", *[DOWN] * 9)
    with Client(fake_service.address, tenant="acme") as client, pytest.raises(UnavailableError):
        TriviumRetriever(client).retrieve("Who sails?")
