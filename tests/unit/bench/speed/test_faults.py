"""What a fault is said to have done to callers, and how faults are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import psutil
import pytest

from bench.harness.collection import Query
from bench.harness.load import Call, Run
from bench.speed.faults.dependencies import Fault, replicas
from bench.speed.faults.experiment import Observed, Timing, observe
from bench.speed.faults.figures import Outcome, back_after, outcome, result_of, summary
from bench.speed.faults.picture import save_picture
from bench.speed.faults.relay import Endpoint, Relay
from bench.speed.overload.steps import CALM_ANSWERS
from tests.support.waiting import until_async
from tests.unit.bench.quality.scoring.answers import report, retrieval
from trivium.values import LegState, Retrieval

WHOLE = retrieval(reports=[report("lexical"), report("graph")])
PARTIAL = retrieval(reports=[report("lexical"), report("graph", LegState.FAILED)])
BUDGET_S = 0.1


def whole(due_s: float) -> Call[Retrieval]:
    return Call(0.01, WHOLE, due_s=due_s)


def observed(*calls: Call[Retrieval]) -> Observed:
    """A hung Neo4j from the second to the fifth second."""
    return Observed(
        dependency="neo4j", fault=Fault.HUNG, run=Run(calls, 10.0), began_s=2.0, ended_s=5.0
    )


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (Call(0.05, WHOLE), Outcome.WHOLE),
        (Call(0.05, PARTIAL), Outcome.PARTIAL),
        (Call(0.11, WHOLE), Outcome.LATE),
        (Call(0.01, code="UNAVAILABLE"), Outcome.REFUSED),
        (Call(0.11, code="UNAVAILABLE"), Outcome.LATE),
        (Call(0.09, code="DEADLINE_EXCEEDED"), Outcome.LATE),
    ],
)
def test_a_call_ends_in_one_way(call: Call[Retrieval], expected: Outcome) -> None:
    assert outcome(call, BUDGET_S) is expected


def test_only_calls_due_during_the_fault_count() -> None:
    result = result_of(
        observed(
            whole(1.9),
            Call(0.05, PARTIAL, due_s=2.0),
            Call(0.1, code="DEADLINE_EXCEEDED", due_s=3.0),
            whole(4.9),
            Call(0.01, code="UNAVAILABLE", due_s=5.0),
        ),
        BUDGET_S,
        rate_per_s=1,
    )

    assert result.n == 3
    assert result.errors == {"DEADLINE_EXCEEDED": 1}
    assert result.measured["outcomes"] == {
        "whole": 1,
        "without some leg": 1,
        "error at once": 0,
        "late": 1,
    }
    assert result.measured["leg_states"] == {"graph: failed": 1}


@pytest.mark.parametrize(
    ("calls", "seconds"),
    [
        ([whole(4.0), *(whole(5.5 + each) for each in range(CALM_ANSWERS))], 0.5),
        (
            [
                whole(5.5),
                Call(0.01, PARTIAL, due_s=6.0),
                *(whole(7 + each) for each in range(CALM_ANSWERS)),
            ],
            2.0,
        ),
        ([whole(5.5 + each) for each in range(CALM_ANSWERS - 1)], None),
    ],
)
def test_a_service_is_back_when_answers_stay_whole(
    calls: Sequence[Call[Retrieval]], seconds: float | None
) -> None:
    assert back_after(calls, 5.0, BUDGET_S) == seconds


def test_a_run_is_told_and_drawn(tmp_path: Path) -> None:
    result = result_of(observed(whole(1.0), Call(0.05, PARTIAL, due_s=3.0)), BUDGET_S, rate_per_s=1)
    records = [result.as_record({"machine": {}, "versions": {}, "collection": {}})]

    text = summary(records)
    save_picture(records, tmp_path / "picture.png")

    assert "| neo4j hung | 1 | 0.0% | 100.0% | 0.0% | 0.0% | 50 | - | - |" in text
    assert "| neo4j hung | graph: failed: 1 | - |" in text
    assert (tmp_path / "picture.png").stat().st_size > 0


class Neo4j:
    """A dependency whose faults are noted."""

    name = "neo4j"
    faults = frozenset(Fault)

    def __init__(self, error: type[Exception] | None = None) -> None:
        self.noted: list[str] = []
        self._error = error

    async def begin(self, _fault: Fault) -> None:
        self.noted.append("begin")
        if self._error is not None:
            raise self._error

    async def end(self, _fault: Fault) -> None:
        self.noted.append("end")


async def answer(_query: Query) -> Retrieval:
    return WHOLE


TIMING = Timing(before_s=0.0, during_s=0.0, after_s=0.02)


async def test_calls_are_sent_while_a_fault_begins_and_ends() -> None:
    neo4j = Neo4j()

    found = await observe(neo4j, Fault.HUNG, answer, cycle(QUERIES), 1000, TIMING, lambda: None)

    assert neo4j.noted == ["begin", "end"]
    assert len(found.run.calls) == 20
    assert 0 <= found.began_s <= found.ended_s


async def test_a_fault_ends_even_if_its_beginning_failed() -> None:
    neo4j = Neo4j(ProcessLookupError)

    with pytest.raises(ProcessLookupError):
        await observe(neo4j, Fault.HUNG, answer, cycle(QUERIES), 1000, TIMING, lambda: None)

    assert neo4j.noted == ["begin", "end"]


QUERIES = [Query(id="q", tenant="t", text="?")]


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    """A relay in front of a server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            writer.write(chunk)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    opened = Relay(Endpoint(port=server.sockets[0].getsockname()[1]), Endpoint())
    await opened.open()
    yield opened
    await opened.close()
    server.close()


async def test_a_relay_forwards_both_ways(relay: Relay) -> None:
    reader, writer = await relay.listen.connect()

    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()


async def test_a_closed_relay_ends_connections_and_refuses_new_ones(relay: Relay) -> None:
    reader, writer = await relay.listen.connect()
    writer.write(b"hello")
    await reader.readexactly(5)

    await relay.close()

    assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await relay.listen.connect()


async def test_a_relay_opens_again_where_it_was(relay: Relay) -> None:
    before = relay.listen
    await relay.close()

    await relay.open()

    assert relay.listen == before
    _, writer = await before.connect()
    writer.close()


async def test_a_slow_relay_holds_back_responses(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, release = asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        assert seconds == 2
        held.set()
        await release.wait()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    relay.delay_s = 2
    reader, writer = await relay.listen.connect()
    writer.write(b"hello")
    answered = asyncio.create_task(reader.readexactly(5))

    await held.wait()
    assert not answered.done()
    release.set()

    assert await answered == b"hello"
    writer.close()


async def test_a_replica_is_found_suspended_and_known_to_be_back(tmp_path: Path) -> None:
    # Ray gives its workers a title, of which this is the beginning.
    title = "ray::ServeReplica:trivium:VectorIndex"
    serve = f"exec -a {title} sleep 60 & exec -a {title} sleep 60 & wait"
    service = await asyncio.create_subprocess_exec("bash", "-c", serve, cwd=tmp_path)
    index, embedder = replicas(service.pid)

    async def all_are(status: str) -> bool:
        return {child.status() for child in psutil.Process(service.pid).children()} == {status}

    async def two_replicas() -> bool:
        return len(index._pids()) == 2

    try:
        await until_async(two_replicas)
        await index.begin(Fault.HUNG)
        await until_async(partial(all_are, psutil.STATUS_STOPPED))
        await index.end(Fault.HUNG)
        await until_async(partial(all_are, psutil.STATUS_SLEEPING))
        with pytest.raises(RuntimeError, match="replica Embedder"):
            await embedder.begin(Fault.HUNG)
    finally:
        await index.begin(Fault.KILLED)
        await service.wait()
