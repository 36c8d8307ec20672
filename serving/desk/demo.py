"""The demo: ingests a sample conversation and answers five questions.

It uses the service through the command line `trivium`, as any user does; the questions come from
a file that this code does not read.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).with_name("sample")
TENANT = "demo"
PATIENCE_S = 30
"""The timeout of the first question, which waits until all items are embedded and linked."""


class DemoFailedError(Exception):
    """A command of the demo failed; the message says which."""


def play(address: str, sample: Path = SAMPLE) -> None:
    """Ingests the sample and asks its questions; raises `DemoFailedError` if a command fails."""
    files = [str(_near(sample / name)) for name in ("conversation.jsonl", "facts.jsonl")]
    stored = _trivium(address, "ingest", *files, "--json", stdout=subprocess.PIPE)
    token = json.loads(stored)["stored"][0]["result"]["consistency_token"]
    questions = str(_near(sample / "questions.jsonl"))
    # With the token every leg waits until it has applied the write.
    _trivium(address, "ask", "--file", questions, "--explain", "--consistency-token", token)


def next_command(address: str) -> str:
    """The command to suggest to the user."""
    return f'{_program()} --address {address} --tenant {TENANT} ask "Who has a greyhound?"'


def _program() -> Path:
    return _near(Path(sys.executable).with_name("trivium"))


def _near(path: Path) -> Path:
    """The path as a user would type it here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _trivium(address: str, *arguments: str, stdout: int | None = None) -> str:
    """Runs the command line; returns its output if `stdout` is a pipe."""
    options = ["--address", address, "--tenant", TENANT, "--timeout", str(PATIENCE_S)]
    command = [str(_program()), *options, *arguments]
    print(f"\n$ {' '.join(command)}\n", flush=True)
    done = subprocess.run(command, check=False, stdout=stdout, text=True)
    if done.returncode != 0:
        raise DemoFailedError(f"`trivium {arguments[0]}` ended with {done.returncode}")
    return done.stdout or ""
