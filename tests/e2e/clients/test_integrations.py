"""The integrations before the running service."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mcp import Client

from tests.fixtures.service import Service
from trivium_langgraph import TriviumStore
from trivium_mcp import Connection, build_server

EXAMPLES = Path(__file__).parents[3] / "examples"


def run_example(example: str, *arguments: str, **variables: str) -> str:
    environment = {**os.environ, **variables}  # noqa: TID251 - for a child
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def test_mcp_remembers_recalls_explains_and_forgets(service: Service) -> None:
    async with Client(build_server(Connection(address=service.address, tenant="mcp"))) as client:

        async def call(tool: str, **arguments: Any) -> str:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return str(getattr(result.content[0], "text", ""))

        stored = await call("remember", text="The lease in Lisbon starts in May.", speaker="Mara")
        (id_,) = re.findall(r"mcp-\w+", stored)
        recalled = await call("recall", query="When does the lease start?")
        explained = await call("explain", query="When does the lease start?", item_id=id_)
        shown = await call("forget", ids=[id_])
        code = shown.rpartition("confirmation=")[2].rstrip(".")
        erased = await call("forget", ids=[id_], confirmation=code)
        after = await call("recall", query="When does the lease start?")
        for employer, month in (("Siemens", 1), ("Bosch", 5)):
            begins = f"2026-{month:02}-01T00:00:00Z"
            fact = {"subject": "Ana", "relation": "works at", "object": employer}
            await call("remember", fact={**fact, "valid_from": begins, "single_valued": True})
        works = await call("recall", query="Where does Ana work?", mode="facts")

    assert "fact since 2026-05-01: Ana works at Bosch" in works
    assert "Siemens" not in works
    assert f"[{id_}] " in recalled
    assert 'Mara said: "The lease in Lisbon starts in May."' in recalled
    assert f"[{id_}] recalled, at rank 1" in explained
    assert erased.startswith("Erased 1 segments")
    assert after.startswith("Nothing relevant is remembered.")


def test_the_example_of_mcp_recalls_what_it_stored(service: Service) -> None:
    named = {"TRIVIUM_ADDRESS": service.address, "TRIVIUM_TENANT": "mcp-example"}
    output = run_example("mcp_assistant.py", **named)

    assert "tools: recall, describe, explain, remember, forget" in output
    assert 'Nora said: "The wedding is on the eighth of November."' in output


def test_a_store_of_langgraph_keeps_finds_and_deletes(service: Service) -> None:
    with service.client("langgraph") as client:
        store = TriviumStore(client)
        for name, text in (("nora", "Nora eats no meat."), ("idris", "Idris plays chess.")):
            store.put(("users", name), "note", {"text": text})
        found = store.search(("users",), query="What does Nora eat?", limit=1)
        elsewhere = store.search(("users", "idris"), query="What does Nora eat?")
        store.delete(("users", "nora"), "note")
        left = store.search(("users",), query="What does Nora eat?")

    assert [(each.namespace, each.value["text"]) for each in found] == [
        (("users", "nora"), "Nora eats no meat.")
    ]
    assert [each.namespace for each in (*elsewhere, *left) if "nora" in each.namespace] == []


def test_the_example_of_langgraph_recalls_what_was_said(service: Service) -> None:
    where = ("--address", service.address, "--tenant", "langgraph-example")
    output = run_example("langgraph_agent.py", *where)

    assert output.splitlines()[1] == "Bot: I remember: nothing yet."
    assert output.splitlines()[3] == "Bot: I remember: The wedding is on the eighth of November."
