"""Pages whose examples run, block by block: each prints what is shown."""

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

PAGES = ["docs/filters", "docs/several-memories", "README", "docs/tutorial"]
BLOCK = re.compile(
    r"^```(?P<kind>\w+)\n(?P<code>.*?)^```\n(?:\n```(?:text)?\n(?P<output>.*?)^```\n)?", re.M | re.S
)


def blocks(page: str, kind: str) -> list[re.Match[str]]:
    shown = (ROOT / f"{page}.md").read_text()
    return [block for block in BLOCK.finditer(shown) if block["kind"] == kind]


@pytest.mark.parametrize("page", PAGES)
def test_page_prints_the_shown_outputs(
    service: Service, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    namespace: dict[str, Any] = {}
    examples = blocks(page, "python")

    assert any(block["output"] for block in examples)
    for block in examples:
        code = re.sub(r"timeout=[\d.]+", "timeout=30", block["code"])
        code = code.replace("127.0.0.1:9000", service.address)
        exec(compile(code, page, "exec"), namespace)
        assert capsys.readouterr().out == (block["output"] or ""), block["code"]


def test_commands_of_the_tutorial_end_well(service: Service) -> None:
    with service.client("tutorial") as memory:
        memory.load_context()
    shown = "".join(block["code"] for block in blocks("docs/tutorial", "console"))
    commands = [shlex.split(line[2:]) for line in shown.splitlines() if line.startswith("$ ")]
    variables = {**os.environ, "TRIVIUM_ADDRESS": service.address}  # noqa: TID251 - for a child

    assert commands
    for program, *arguments in commands:
        command = [sys.executable, "-m", program, "--timeout", "30", *arguments]
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_commands_of_the_tutorial_are_those_of_packages() -> None:
    started = "".join(block["code"] for block in blocks("docs/tutorial", "bash"))

    assert "pip install 'trivium-server[desk]'" in started
    assert "trivium-server demo" in started
