"""The tutorial, block by block: each runs after those before it, and prints what is shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from tests.fixtures.service import Service
from tests.support.tracked_files import ROOT

PAGE = (ROOT / "docs/tutorial.md").read_text()
BLOCK = re.compile(
    r"^```(?P<kind>\w+)\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.M | re.S
)
TENANT = "tutorial"
PATIENCE = "timeout=30"


def blocks(kind: str) -> list[re.Match[str]]:
    return [block for block in BLOCK.finditer(PAGE) if block["kind"] == kind]


def test_tutorial_prints_the_shown_outputs(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace: dict[str, Any] = {}

    for block in blocks("python"):
        code = re.sub(r"timeout=[\d.]+", PATIENCE, block["code"])
        exec(
            compile(code.replace("127.0.0.1:9000", service.address), "tutorial", "exec"), namespace
        )
        printed = capsys.readouterr().out
        assert printed.rstrip("\n") == (block["output"] or "").rstrip("\n"), block["code"]


def test_commands_of_the_tutorial_end_well(service: Service) -> None:
    with service.client(TENANT) as memory:
        memory.load_context()
    shown = "".join(block["code"] for block in blocks("console"))
    commands = [shlex.split(line[2:]) for line in shown.splitlines() if line.startswith("$ ")]
    variables = {**os.environ, "TRIVIUM_ADDRESS": service.address}  # noqa: TID251 - for a child

    assert commands
    for program, *arguments in commands:
        command = [sys.executable, "-m", program, "--timeout", "30", *arguments]
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_commands_of_the_tutorial_are_those_of_packages() -> None:
    started = "".join(block["code"] for block in blocks("bash"))

    assert "pip install 'trivium-server[desk]'" in started
    assert "trivium-server demo" in started
