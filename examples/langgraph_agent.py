"""A graph with a long-term memory: it recalls before it answers, and keeps what was said.

python examples/langgraph_agent.py --tenant alice
"""

from __future__ import annotations

import argparse
import uuid
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from trivium import Client
from trivium_langgraph import TriviumStore

MEMORIES = ("memories",)


class Turn(TypedDict):
    """The state of the graph."""

    said: str
    known: list[str]
    answer: str


def recall(state: Turn, runtime: Runtime[None]) -> dict[str, list[str]]:
    """Finds what helps with the turn."""
    assert runtime.store is not None
    found = runtime.store.search(MEMORIES, query=state["said"], limit=3)
    return {"known": [item.value["text"] for item in found]}


def answer(state: Turn) -> dict[str, str]:
    """Replace this with a call of your language model."""
    return {"answer": f"I remember: {' '.join(state['known']) or 'nothing yet.'}"}


def remember(state: Turn, runtime: Runtime[None]) -> None:
    """Keeps the turn."""
    assert runtime.store is not None
    runtime.store.put(MEMORIES, str(uuid.uuid4()), {"text": state["said"]})


def main() -> None:
    """Runs two turns."""
    parser = argparse.ArgumentParser(description="A graph with a long-term memory.")
    parser.add_argument("--address", default="127.0.0.1:9000")
    parser.add_argument("--tenant", default="alice")
    given = parser.parse_args()
    builder = StateGraph(Turn)
    builder.add_node(recall)
    builder.add_node(answer)
    builder.add_node(remember)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "answer")
    builder.add_edge("answer", "remember")
    builder.add_edge("remember", END)
    with Client(given.address, tenant=given.tenant) as client:
        graph = builder.compile(store=TriviumStore(client))
        for said in ("The wedding is on the eighth of November.", "When is the wedding?"):
            turn = graph.invoke({"said": said, "known": [], "answer": ""})
            print(f"You: {said}\nBot: {turn['answer']}")


if __name__ == "__main__":
    main()
