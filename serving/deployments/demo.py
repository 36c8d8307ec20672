"""The demonstration: a sample conversation goes in, five questions are answered.

It uses the service as anyone would, through the command line `trivium`; the questions come from
a file that this code does not read.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SAMPLE = Path("clients/python/examples/sample")
TENANT = "demo"


class DemoFailedError(Exception):
    """A command of the demonstration ended badly; the message says which."""


def play(address: str, sample: Path = SAMPLE) -> None:
    """Ingests the sample and asks its questions.

    Raises:
        DemoFailedError: A command failed, or an answer was not among the first three hits.
    """
    _trivium(
        address,
        "ingest",
        str(sample / "conversation.jsonl"),
        str(sample / "facts.jsonl"),
        "--wait",
    )
    _trivium(address, "ask", "--file", str(sample / "questions.jsonl"), "--explain")


def next_command(address: str) -> str:
    """What to type next."""
    return f'{_program()} --address {address} --tenant {TENANT} ask "Who looks after the dog?"'


def _program() -> Path:
    program = Path(sys.executable).with_name("trivium")
    here = Path.cwd()
    return program.relative_to(here) if program.is_relative_to(here) else program


def _trivium(address: str, *arguments: str) -> None:
    command = [str(_program()), "--address", address, "--tenant", TENANT, *arguments]
    print(f"\n$ {' '.join(command)}\n", flush=True)
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        raise DemoFailedError(f"`trivium {arguments[0]}` ended with {code}")
