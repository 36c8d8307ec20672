"""Runs mutants in copies of the tree.

Each test run is a fork of this process, which has imported torch and other large packages
beforehand: to import them anew would take longer than most of the tests.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path

import neo4j  # noqa: F401 - this import and the next ones are for the forks
import psycopg  # noqa: F401
import pydantic_settings  # noqa: F401
import pytest
import torch  # noqa: F401

from tests.mutations.catalog import NEEDS, ROOT, Mutant

COPIED = (
    "bench",
    "clients",
    "deploy",
    "docs",
    "examples",
    "protos",
    "requirements",
    "serving",
    "tests",
)
LOG = "mutant.log"
STOP_S = 30


class Verdict(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    """A test failed, as it should."""
    SURVIVED = "survived"
    """All tests passed."""
    BROKEN = "broken"
    """The tests could not run, which proves nothing."""
    TIMED_OUT = "timed out"


_VERDICTS: dict[int | None, Verdict] = {
    pytest.ExitCode.OK: Verdict.SURVIVED,
    pytest.ExitCode.TESTS_FAILED: Verdict.KILLED,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, how long it took, and what pytest printed."""

    mutant: Mutant
    verdict: Verdict
    seconds: float
    output: str


class Copy:
    """A copy of the tree, in which one mutant at a time is applied and tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            ignore = shutil.ignore_patterns("__pycache__", "results")
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, folder)

    def apply(self, mutant: Mutant) -> None:
        """Removes a guard."""
        self._write(mutant.file, mutant.applied_to((ROOT / mutant.file).read_text()))

    def restore(self, mutant: Mutant) -> None:
        """Puts it back."""
        self._write(mutant.file, (ROOT / mutant.file).read_text())

    def _write(self, file: str, text: str) -> None:
        path = self.folder / file
        path.write_text(text)
        # Bytecode is matched by size and seconds, which two mutants may have in common.
        Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)

    def start(self, tests: Iterable[str], needs: frozenset[str]) -> ForkProcess:
        """Begins to run tests; the exit code is pytest's."""
        absent = " or ".join(name for name in NEEDS if name not in needs)
        arguments = [*tests, "-q", "-x", "-p", "no:cacheprovider"]
        # That a test fails is enough: no smaller example is looked for, and no difference shown.
        arguments += ["--hypothesis-profile", "mutants", "--assert=plain"]
        arguments += ["-m", f"not ({absent})", "--require", ",".join(needs)]
        process = get_context("fork").Process(target=_pytest, args=(self.folder, arguments))
        process.start()
        return process

    @property
    def output(self) -> str:
        """What the last run printed."""
        return (self.folder / LOG).read_text(errors="replace")


def _pytest(folder: Path, arguments: Sequence[str]) -> None:
    """Runs pytest in a copy; called in a fork, which it ends."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()  # all that the tests start can be ended with them
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.chdir(folder)
    clients = sorted(each.parent for each in folder.glob("clients/*/pyproject.toml"))
    ours = [str(each) for each in (folder, *clients)]
    theirs = {"", *(each.replace(str(folder), str(ROOT)) for each in ours)}
    sys.path[:] = [*ours, *(each for each in sys.path if each not in theirs)]
    os.environ["PYTHONPATH"] = os.pathsep.join(ours)  # noqa: TID251 - for what the tests start
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        code = pytest.main(list(arguments))
    finally:
        os._exit(code)


def unmutated_failure(copy: Copy, mutants: Sequence[Mutant]) -> str:
    """What pytest prints if tests fail though no guard is removed; empty if they pass."""
    for needs in {mutant.needs for mutant in mutants}:
        tests = sorted({test for each in mutants if each.needs == needs for test in each.tests})
        process = copy.start(tests, needs)
        process.join()
        if process.exitcode != pytest.ExitCode.OK:
            return copy.output
    return ""


def run(mutants: Iterable[Mutant], copies: Sequence[Copy], limit_s: float) -> Iterator[Outcome]:
    """Runs mutants, as many at once as there are copies; each ends within the limit."""
    waiting, idle = deque(mutants), list(copies)
    running: dict[int, _Run] = {}
    try:
        while waiting or running:
            while waiting and idle:
                started = _Run.start(waiting.popleft(), idle.pop())
                running[started.process.sentinel] = started
            left_s = min(each.started for each in running.values()) + limit_s - time.monotonic()
            ended = wait(list(running), timeout=max(0, left_s))
            overdue_from = time.monotonic() - limit_s
            for key, each in list(running.items()):
                if key in ended or each.started <= overdue_from:
                    idle.append(running.pop(key).copy)
                    yield each.end(timed_out=key not in ended)
    finally:
        for each in running.values():
            each.end(timed_out=True)


@dataclass(frozen=True, slots=True)
class _Run:
    mutant: Mutant
    copy: Copy
    process: ForkProcess
    started: float

    @classmethod
    def start(cls, mutant: Mutant, copy: Copy) -> _Run:
        copy.apply(mutant)
        return cls(mutant, copy, copy.start(mutant.tests, mutant.needs), time.monotonic())

    def end(self, *, timed_out: bool) -> Outcome:
        """Takes note of how it ended, and kills what still runs."""
        assert self.process.pid is not None, "it was started"
        if timed_out:
            # pytest ends what its fixtures have started.
            os.kill(self.process.pid, signal.SIGINT)
            self.process.join(STOP_S)
        else:
            self.process.join()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()
        self.copy.restore(self.mutant)
        verdict = _VERDICTS.get(self.process.exitcode, Verdict.BROKEN)
        if timed_out:
            verdict = Verdict.TIMED_OUT
        return Outcome(self.mutant, verdict, time.monotonic() - self.started, self.copy.output)
