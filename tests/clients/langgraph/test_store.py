"""What the store of LangGraph does beyond what it is compared in."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from tests.clients.langgraph.fake_client import FakeAsyncClient, FakeClient
from tests.fakes.service import FakeService
from trivium import Client
from trivium.v1.ingest_service_pb2 import IngestResponse
from trivium_langgraph import TriviumStore

NS = ("users", "nora")


@pytest.fixture
def client_in_memory() -> FakeClient:
    return FakeClient()


@pytest.fixture
def store(client_in_memory: FakeClient) -> TriviumStore:
    store = TriviumStore(client_in_memory)
    store.put(NS, "diet", {"text": "Nora eats no meat.", "year": 2024})
    store.put(NS, "trip", {"text": "Nora flies to Goa.", "year": 2026})
    store.put(("users", "idris"), "diet", {"text": "Idris eats meat.", "year": 2026})
    return store


def keys(found: list[Any]) -> list[str]:
    return [each.key for each in found]


def test_query_finds_items_below_the_namespace(store: TriviumStore) -> None:
    assert keys(store.search(NS, query="who eats meat")) == ["diet"]
    below = {each.namespace for each in store.search(("users",), query="who eats")}
    assert below == {NS, ("users", "idris")}
    assert store.search(NS, query="who eats")[0].score == 1.0


def test_query_is_filtered_and_paged_after_ranking(
    store: TriviumStore, client_in_memory: FakeClient
) -> None:
    assert keys(store.search(NS, query="nora", filter={"year": {"$gt": 2025}}, limit=1)) == ["trip"]
    assert client_in_memory.retrievals[-1]["limit"] == 100

    both = [store.search(NS, query="nora", limit=1, offset=offset) for offset in (0, 1, 2)]
    assert sorted(key for page in both for key in keys(page)) == ["diet", "trip"]
    assert client_in_memory.retrievals[-1]["limit"] == 3


def test_query_waits_for_writes_and_folds_nothing(
    store: TriviumStore, client_in_memory: FakeClient
) -> None:
    store.search(NS, query="nora")
    store.delete(NS, "trip")
    store.search(NS, query="nora")

    tokens = [each["consistency_token"] for each in client_in_memory.retrievals]
    assert tokens == ["write 3", "write 4"]
    # Near duplicates are two items.
    assert client_in_memory.retrievals[-1]["profile_overrides"] == {"fold_repeats": False}


def test_unindexed_item_is_listed_but_not_found(
    store: TriviumStore, client_in_memory: FakeClient
) -> None:
    store.put(NS, "pin", {"text": "Nora has the number 1234."}, index=False)

    assert "pin" not in keys(store.search(NS, query="nora"))
    assert "pin" in keys(store.search(NS))
    assert store.get(NS, "pin") is not None
    assert [each.sensitive for each in client_in_memory.segments.values()].count(True) == 1


def test_fields_to_index_are_refused_rather_than_ignored(
    store: TriviumStore, client_in_memory: FakeClient
) -> None:
    with pytest.raises(NotImplementedError, match="indexes the whole value"):
        store.put(NS, "card", {"text": "x", "number": "4000"}, index=["text"])

    assert len(client_in_memory.segments) == 3


def test_created_at_stays_when_a_value_is_replaced(store: TriviumStore) -> None:
    before = store.get(NS, "diet")
    store.put(NS, "diet", {"text": "Nora eats fish."})
    after = store.get(NS, "diet")

    assert before is not None
    assert after is not None
    assert after.created_at == before.created_at
    assert after.updated_at > before.updated_at


async def test_a_blocking_client_serves_an_event_loop_too(store: TriviumStore) -> None:
    gotten = await asyncio.gather(*(store.aget(NS, key) for key in ("diet", "trip", "none")))

    assert [None if each is None else each.key for each in gotten] == ["diet", "trip", None]


def test_an_asyncio_client_refuses_the_blocking_methods() -> None:
    with pytest.raises(TypeError, match="aget, asearch"):
        TriviumStore(FakeAsyncClient()).get(NS, "diet")


def test_a_rejected_item_raises_with_the_reason(fake_service: FakeService, client: Client) -> None:
    violation = {"field": "items[0].segment.text", "description": "is longer than 32 KiB"}
    outcome = {"state": "ITEM_STATE_REJECTED", "violations": [violation]}
    fake_service.will_answer("Ingest", IngestResponse(outcomes=[outcome]))

    with pytest.raises(ValueError, match=r"'diet' in \('users', 'nora'\).*longer than 32 KiB"):
        TriviumStore(client).put(NS, "diet", {"text": "x"})


class Message(TypedDict):
    question: str
    known: list[str]


def recall(state: Message, runtime: Runtime[None]) -> dict[str, Any]:
    assert runtime.store is not None
    found = runtime.store.search(NS, query=state["question"])
    return {"known": [each.value["text"] for each in found]}


def test_graph_of_langgraph_uses_the_store(store: TriviumStore) -> None:
    graph = StateGraph(Message).add_node("recall", recall)
    graph.add_edge(START, "recall").add_edge("recall", END)

    answer = graph.compile(store=store).invoke({"question": "nora eats", "known": []})

    assert sorted(answer["known"]) == ["Nora eats no meat.", "Nora flies to Goa."]
