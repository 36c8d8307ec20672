"""Examples, integrations and clients of other languages before the running service."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client

from tests.clients.importers.importing import EXPORTS
from tests.fixtures.service import Service
from tests.support.answers import states
from tests.support.sample import sample_items
from tests.support.tracked_files import ROOT, tracked_files
from trivium_importers.command import trivium_import
from trivium_langgraph import TriviumStore
from trivium_mcp import Connection, build_server

EXAMPLES = ROOT / "examples"
TSC = ROOT / "clients/typescript/node_modules/.bin/tsc"
LATE_S = 240


def run(*command: str | Path, folder: Path = ROOT, given: str = "", **variables: str) -> str:
    """The output of a command that must succeed."""
    environment = {**os.environ, **variables}  # noqa: TID251 - for a child
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        timeout=LATE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_page_of_examples_lists_every_example() -> None:
    listed = set(
        re.findall(r"^\| \[[\w.]+\]\(([\w./]+)\)", (EXAMPLES / "README.md").read_text(), re.M)
    )

    there = set(tracked_files("examples/*.py", "examples/*.ts", "examples/*.ipynb"))
    assert {f"examples/{name}" for name in listed} == there | {"examples/go_service/main.go"}


def test_bot_stores_both_turns(service: Service) -> None:
    where = ("--address", service.address, "--tenant", "bot-example")
    said = "The lease in Lisbon starts in May."

    output = run(sys.executable, EXAMPLES / "bot.py", *where, given=f"{said}\n")

    assert f"Nora: {said}" in output
    with service.client("bot-example") as memory:
        assert said in {hit.text for hit in memory.retrieve("the lease in Lisbon").hits}


def test_import_of_a_file_is_repeated_without_effect(service: Service) -> None:
    command = (sys.executable, EXAMPLES / "batch_import.py", EXAMPLES / "notes.csv")
    where = ("--address", service.address, "--tenant", "import-example")

    first, second = (run(*command, *where) for _ in range(2))

    assert first.startswith("stored: 6 new, 0 as before\n1 ")
    assert "fifteenth of May" in first
    assert second.startswith("stored: 0 new, 6 as before\n1 ")


IMPORTED = "the-import"
IMPORTS = {"mem0": EXPORTS / "mem0.json", "graphiti": EXPORTS / "graphiti.jsonl"}


def imported(service: Service, source: str) -> dict[str, Any]:
    """The result of `trivium-import`."""
    options = ["--address", service.address, "--tenant", IMPORTED]
    words = ["--json", source, str(IMPORTS[source])]
    done = CliRunner().invoke(trivium_import, [*options, *words])
    assert done.exit_code == 0, done.output
    [stored] = json.loads(done.stdout)["stored"]
    result: dict[str, Any] = stored["result"]
    return result


def test_exports_of_other_memories_are_stored_and_found(service: Service) -> None:
    results = {source: imported(service, source) for source in IMPORTS}
    token = results["graphiti"]["consistency_token"]
    memory = service.client(IMPORTED)

    said = memory.retrieve("When is the wedding?", consistency_token=token)
    answer = memory.retrieve("Where does Nora work?", consistency_token=token)

    assert said.complete, states(said)
    assert answer.complete, states(answer)
    created = {source: result["created_count"] for source, result in results.items()}
    assert created == {"mem0": 2, "graphiti": 7}
    assert said.hits[0].text == "The wedding was moved to the ninth of November."
    turn = next(hit for hit in answer.hits if "I left Acme" in hit.text)
    assert "graph" in turn.legs


def test_notebook_draws_a_ledger(service: Service, tmp_path: Path) -> None:
    with service.client("notebook-example") as memory:
        token = memory.ingest_stream(sample_items("conversation")).consistency_token
        memory.retrieve("When is the wedding?", consistency_token=token)
    cells = json.loads((EXAMPLES / "ledger.ipynb").read_text())["cells"]
    code = "\n".join("".join(each["source"]) for each in cells if each["cell_type"] == "code")
    named = {"TRIVIUM_ADDRESS": service.address, "TRIVIUM_TENANT": "notebook-example"}

    output = run(sys.executable, "-c", code, folder=tmp_path, MPLBACKEND="Agg", **named)

    assert "5 scores computed again" in output
    assert (tmp_path / "ledger.png").stat().st_size > 5_000


@pytest.mark.node
@pytest.mark.skipif(not shutil.which("node"), reason="Node.js is not installed")
@pytest.mark.skipif(not TSC.exists(), reason="`make test` installs the compiler")
def test_support_desk_remembers_its_customers(service: Service, tmp_path: Path) -> None:
    types = TSC.parents[1] / "@types"
    options = ("--strict", "--noUncheckedIndexedAccess", "--target", "es2022")
    modules = ("--module", "nodenext", "--typeRoots", types, "--types", "node")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    patient = (EXAMPLES / "support_desk.ts").read_text().replace("RECALL_S = 0.5", "RECALL_S = 25")
    (tmp_path / "support_desk.ts").write_text(patient)
    run(TSC, *options, *modules, "support_desk.ts", folder=tmp_path)

    output = run("node", "support_desk.js", service.http, folder=tmp_path)

    machine, invoices = re.findall(r"^<memory>.*?^</memory>", output, re.M | re.S)
    assert "leaks from its left side" in machine
    assert "accounts@example.org" in invoices


@contextlib.contextmanager
def go_service(program: Path, address: str) -> Iterator[str]:
    """Runs it until the end of the block; its URL."""
    command = [str(program), address, "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@pytest.mark.go
@pytest.mark.release  # it is compiled with all of gRPC
@pytest.mark.skipif(not shutil.which("go"), reason="Go is not installed")
def test_go_service_recalls_statements_of_users(service: Service, tmp_path: Path) -> None:
    program = tmp_path / "support"
    run("go", "build", "-o", program, ".", folder=EXAMPLES / "go_service")
    asked = urllib.parse.urlencode({"user": "go-mara", "question": "Where did they move?"})

    with go_service(program, service.address) as url:
        turn = b"We moved to Lisbon in May."
        urllib.request.urlopen(f"{url}/turns?user=go-mara", turn, timeout=LATE_S).close()
        with urllib.request.urlopen(f"{url}/context?{asked}", timeout=LATE_S) as answer:
            block = answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"{url}/turns?user=go-mara", b"", timeout=LATE_S)

    assert 'said: "We moved to Lisbon in May."' in block


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


def test_example_of_mcp_recalls_stored_items(service: Service) -> None:
    example = (sys.executable, EXAMPLES / "mcp_assistant.py")
    output = run(*example, TRIVIUM_ADDRESS=service.address, TRIVIUM_TENANT="mcp-example")

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


def test_example_of_langgraph_recalls_earlier_turns(service: Service) -> None:
    where = ("--address", service.address, "--tenant", "langgraph-example")
    output = run(sys.executable, EXAMPLES / "langgraph_agent.py", *where)

    assert output.splitlines()[1] == "Bot: I remember: nothing yet."
    assert output.splitlines()[3] == "Bot: I remember: The wedding is on the eighth of November."


TYPESCRIPT = ROOT / "clients/typescript/dist/test"


@pytest.mark.node
@pytest.mark.skipif(not shutil.which("node"), reason="Node.js is not installed")
@pytest.mark.skipif(not TYPESCRIPT.is_dir(), reason="`make test` builds the TypeScript client")
def test_the_typescript_client_writes_finds_and_forgets(service: Service) -> None:
    files = sorted(map(str, TYPESCRIPT.glob("*.test.js")))
    output = run("node", "--test", *files, folder=TYPESCRIPT, TRIVIUM_TARGET=service.address)

    assert "# fail 0" in output
    assert "# skipped 0" in output


@pytest.mark.go
@pytest.mark.release  # it is compiled with all of gRPC
@pytest.mark.skipif(not shutil.which("go"), reason="Go is not installed")
def test_the_go_client_writes_finds_and_forgets(service: Service) -> None:
    command = ("go", "test", "-count=1", "-v", ".")
    output = run(*command, folder=ROOT / "clients/go", TRIVIUM_TARGET=service.address)

    assert "--- PASS: TestWhatIsWrittenIsFoundAndForgotten" in output
    assert "--- SKIP" not in output


PLAIN = """
import os, grpc
from trivium.v1 import ingest_service_pb2, ingest_service_pb2_grpc
from trivium.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc
channel = grpc.insecure_channel(os.environ["TRIVIUM_TARGET"])
segment = {"id": "t1", "text": "The lease in Lisbon starts in May."}
written = ingest_service_pb2_grpc.IngestServiceStub(channel).Ingest(
    ingest_service_pb2.IngestRequest(tenant="plain", items=[{"segment": segment}])
)
found = retrieval_service_pb2_grpc.RetrievalServiceStub(channel).Retrieve(
    retrieval_service_pb2.RetrieveRequest(
        tenant="plain",
        query="When does the lease start?",
        consistency_token=written.consistency_token,
        time_budget={"seconds": 20},
    )
)
print(found.hits[0].segment.id)
"""


def test_stubs_by_the_plain_command_write_and_find(service: Service, tmp_path: Path) -> None:
    protos = sorted(str(path) for path in (ROOT / "protos" / "trivium" / "v1").glob("*.proto"))
    out = [f"--{kind}={tmp_path}" for kind in ("python_out", "grpc_python_out")]
    plain = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "protos"), *out, *protos]
    run(*plain)

    command = (sys.executable, "-c", PLAIN)
    assert run(*command, folder=tmp_path, TRIVIUM_TARGET=service.address) == "t1\n"
