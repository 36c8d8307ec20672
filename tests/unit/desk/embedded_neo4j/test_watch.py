"""When a Neo4j that answers errors is started again."""

from __future__ import annotations

from serving.desk.embedded_neo4j.watch import EVERY_S, MAX_ERRORS, ErrorWatch
from tests.support.stepped_clock import SteppedClock

FAILED = "Neo.DatabaseError.Transaction.TransactionStartFailed"
URI = "bolt://127.0.0.1:1"


class Watched:
    """A server that answers as the test wants, and when it is started again."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.error = ""
        self.asked = 0
        self.watch = ErrorWatch(self._ask, self.clock)

    def _ask(self, uri: str) -> str:
        assert uri == URI
        self.asked += 1
        return self.error

    def started_again_at(self, checks: int) -> list[int]:
        """At which of that number of checks."""
        found = []
        for check in range(1, checks + 1):
            if self.watch.lasting_error(URI):
                found.append(check)
            self.clock.now += EVERY_S
        return found


def test_server_that_answers_is_left_alone() -> None:
    assert Watched().started_again_at(10) == []


def test_server_with_lasting_errors_starts_ever_later() -> None:
    server = Watched()
    server.error = FAILED

    assert server.started_again_at(45) == [3, 9, 21, 45]
    assert server.started_again_at(2 * MAX_ERRORS) == [MAX_ERRORS, 2 * MAX_ERRORS]


def test_an_answer_in_between_ends_the_count() -> None:
    server = Watched()
    for _ in range(4):
        server.error = FAILED
        assert server.started_again_at(2) == []
        server.error = ""
        assert server.started_again_at(1) == []


def test_server_is_asked_in_intervals() -> None:
    server = Watched()
    for _ in range(20):
        server.watch.lasting_error(URI)

    assert server.asked == 1
