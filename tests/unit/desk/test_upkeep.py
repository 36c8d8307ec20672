"""Stores that end are started again, at once and then with pauses."""

from __future__ import annotations

import threading

import pytest

from serving.desk.embedded_postgres import PostgresStartError
from serving.desk.upkeep import Upkeep, tended_in_background
from serving.domain.errors import DependencyError
from tests.support.waiting import until


class BrokenServer:
    """Cannot be started until it is mended."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.attempts: list[float] = []
        self.now = 0.0

    def restart_if_dead(self) -> None:
        self.attempts.append(self.now)
        if self.error is not None:
            raise self.error


def tended(server: BrokenServer, said: list[str], until: int, mended_at: int | None = None) -> None:
    """Tends a server every second."""
    upkeep = Upkeep(server, "Nothing works.", said.append, lambda: server.now)
    for second in range(until):
        server.now = second
        if second == mended_at:
            server.error = None
        upkeep.tend()


@pytest.mark.parametrize(
    "error", [PostgresStartError("no memory"), DependencyError("graph", "no memory")]
)
def test_failed_start_is_retried_after_doubling_pauses(error: Exception) -> None:
    server, said = BrokenServer(error), list[str]()

    tended(server, said, until=200)

    assert server.attempts == [0, 2, 6, 14, 30, 62, 122, 182]
    assert "no memory. Nothing works. Next attempt in 2 s" in said[0]
    assert said[-1].endswith("in 60 s")


def test_started_store_is_checked_every_time_again() -> None:
    server, said = BrokenServer(PostgresStartError("no memory")), list[str]()

    tended(server, said, until=10, mended_at=3)

    assert server.attempts == [0, 2, 6, 7, 8, 9]
    assert len(said) == 2


class SlowServer:
    """Takes as long to start as the test wants; counts how often it is tended."""

    def __init__(self) -> None:
        self.attempts = 0
        self.may_start = threading.Event()

    def restart_if_dead(self) -> None:
        self.attempts += 1
        assert self.may_start.wait(20), "the caller waits for it"


def test_a_slow_start_delays_neither_the_caller_nor_another_store() -> None:
    slow, quick = SlowServer(), SlowServer()
    quick.may_start.set()
    upkeeps = [Upkeep(server, "Nothing works.", print) for server in (slow, quick)]

    with tended_in_background(upkeeps) as tend:

        def tended_thrice() -> bool:
            tend()
            return quick.attempts >= 3

        until(tended_thrice)
        assert slow.attempts == 1
        slow.may_start.set()


def test_unexpected_start_error_is_raised() -> None:
    with (
        tended_in_background([Upkeep(BrokenServer(KeyError("x")), "", print)]) as tend,
        pytest.raises(KeyError),
    ):
        until(lambda: bool(tend()))
