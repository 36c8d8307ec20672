"""Maintaining an engine in a thread of its own."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import nullcontext

import pytest

from serving.pipeline.index.maintenance import NICENESS, Maintenance
from tests.fakes.meaning import InMemoryIndex


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.pipeline.index.maintenance.MAINTAIN_EVERY_S", 0.001)


class WatchedEngine(InMemoryIndex):
    """Counts how often it was maintained, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = threading.Semaphore(0)
        self.is_ended = threading.Event()
        self.errors: list[Exception] = []

    def maintain(self) -> None:
        self.rounds.release()
        if self.errors:
            raise self.errors.pop()

    def close(self) -> None:
        self.is_ended.set()


def maintain(engine: WatchedEngine, rounds: int) -> None:
    """Maintains an engine until it has had this number of rounds."""
    maintenance = Maintenance(engine, nullcontext)
    maintenance.start()
    for _ in range(rounds):
        assert engine.rounds.acquire(timeout=10)
    maintenance.end()
    maintenance.join(10)


def test_an_engine_is_maintained_until_the_end_and_closed() -> None:
    engine = WatchedEngine()

    maintain(engine, rounds=3)

    assert engine.is_ended.is_set()


def test_a_round_that_fails_is_followed_by_the_next(caplog: pytest.LogCaptureFixture) -> None:
    engine = WatchedEngine()
    engine.errors = [RuntimeError("what nobody thought of")]

    maintain(engine, rounds=2)

    assert "index maintenance failed" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux alone")
def test_maintenance_gives_way_to_other_threads() -> None:
    class PriorityEngine(WatchedEngine):
        niceness: int

        def maintain(self) -> None:
            self.niceness = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
            super().maintain()

    engine = PriorityEngine()
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    maintain(engine, rounds=1)

    assert engine.niceness == min(19, own + NICENESS)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own
