"""The examples before the running service, by the command that their page names."""

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

import pytest

from tests.fixtures.service import Service
from tests.support.tracked_files import ROOT, tracked_files
from trivium import Item
from trivium.files.reading import read_items
from trivium.files.records import Problem

EXAMPLES = ROOT / "examples"
TSC = ROOT / "clients/typescript/node_modules/.bin/tsc"
LATE_S = 120


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


def test_bot_stores_what_was_said(service: Service) -> None:
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


def sample() -> list[Item]:
    def refuse(problem: Problem) -> None:
        raise AssertionError(str(problem))

    file = ROOT / "serving/desk/sample/conversation.jsonl"
    return [found.item for found in read_items([str(file)], refuse)]


def test_notebook_draws_a_ledger(service: Service, tmp_path: Path) -> None:
    with service.client("notebook-example") as memory:
        token = memory.ingest_stream(sample()).consistency_token
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
def test_go_service_knows_what_users_said(service: Service, tmp_path: Path) -> None:
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
