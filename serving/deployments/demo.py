"""The demonstration: a sample conversation goes in, five questions are answered.

It uses the service as anyone would, through the command line `trivium`; the questions come from
a file that this code does not read.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SAMPLE = Path("clients/python/examples/sample")
TENANT = "demo"
PATIENCE_S = 30
"""For the first question, which waits until all has been embedded and linked."""


class DemoFailedError(Exception):
    """A command of the demonstration ended badly; the message says which."""


def play(address: str, sample: Path = SAMPLE) -> None:
    """Ingests the sample and asks its questions.

    Raises:
        DemoFailedError: A command failed, or an answer was not among the first three hits.
    """
    stored = _trivium(
        address,
        "ingest",
        str(sample / "conversation.jsonl"),
        str(sample / "facts.jsonl"),
        "--json",
        stdout=subprocess.PIPE,
    )
    token = json.loads(stored)["stored"][0]["result"]["token"]
    questions = str(sample / "questions.jsonl")
    # What was stored is to be found by every leg: the token says what to wait for.
    _trivium(address, "ask", "--file", questions, "--explain", "--wait", token)


def next_command(address: str) -> str:
    """What to type next."""
    return f'{_program()} --address {address} --tenant {TENANT} ask "Who looks after the dog?"'


def _program() -> Path:
    program = Path(sys.executable).with_name("trivium")
    here = Path.cwd()
    return program.relative_to(here) if program.is_relative_to(here) else program


def _trivium(address: str, *arguments: str, stdout: int | None = None) -> str:
    """Runs the command line; returns what it printed, if that is piped."""
    options = ["--address", address, "--tenant", TENANT, "--timeout", str(PATIENCE_S)]
    command = [str(_program()), *options, *arguments]
    print(f"\n$ {' '.join(command)}\n", flush=True)
    done = subprocess.run(command, check=False, stdout=stdout, text=True)
    if done.returncode != 0:
        raise DemoFailedError(f"`trivium {arguments[0]}` ended with {done.returncode}")
    return done.stdout or ""
