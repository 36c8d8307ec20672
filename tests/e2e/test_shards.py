"""The index in shares: what it finds, what a lost share costs, and how it grows."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

import pytest

from tests.e2e.test_cluster import started
from tests.fix_cluster import Cluster
from tests.processes import tree_of
from tests.waiting import until
from trivium import Client, Segment
from trivium.values import LegReport, LegState

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.neo4j,
    pytest.mark.ray,
    pytest.mark.model,
    pytest.mark.timeout(600),
]

WORDS = ("sailed", "cooked", "painted", "sold", "found", "lost", "drew", "fixed")
THINGS = ("a boat", "rice", "the fence", "two lamps", "her keys", "a map", "his bike", "a ring")


def sentence(number: int) -> str:
    """A sentence of its own for each number."""
    did, thing = WORDS[number % 8], THINGS[number // 8 % 8]
    return f"On day {number} somebody {did} {thing}."


def told(memory: Client, numbers: range) -> str:
    """Stores a sentence for each number; returns the token."""
    return memory.ingest([Segment(id=str(each), text=sentence(each)) for each in numbers]).token


def found(memory: Client, number: int, token: str) -> bool:
    """Whether the leg of meaning brings the sentence to a question that repeats it."""
    answer = memory.retrieve(sentence(number), token=token, changes=ONLY_MEANING)
    assert dense(answer.leg_reports).state is LegState.OK, answer.leg_reports
    return str(number) in {hit.id for hit in answer.hits}


ONLY_MEANING = {
    "legs": {leg: {"weight": 0} for leg in ("lexical", "facts", "graph", "related")},
    "signals": {"speaker": 0, "time": 0},
}


def dense(reports: tuple[LegReport, ...]) -> LegReport:
    return next(report for report in reports if report.leg == "dense")


def report_of(memory: Client) -> LegReport:
    """What becomes of the leg within a second or so: whoever has longer waits for a lost shard."""
    answer = memory.retrieve(sentence(1), changes=ONLY_MEANING, timeout=1.5)
    return dense(answer.leg_reports)


def kill_replica(cluster: Cluster, deployment: str) -> None:
    """Ends the process of a deployment's one replica."""
    title = f"ray::ServeReplica:trivium:{deployment}"
    [replica] = [
        process
        for process in tree_of(cluster.process.pid)
        if " ".join(process.cmdline()).startswith(title)
    ]
    replica.kill()
    replica.wait(30)


@contextmanager
def writing(memory: Client) -> Iterator[list[int]]:
    """Stores one sentence after the other until the end of the block; yields those accepted."""
    accepted: list[int] = []
    over = threading.Event()

    def write() -> None:
        for number in count(1000):
            if over.is_set():
                return
            told(memory, range(number, number + 1))
            accepted.append(number)

    with ThreadPoolExecutor(1) as writer:
        ends = writer.submit(write)
        try:
            yield accepted
        finally:
            over.set()
        ends.result()


@started("with ray.env")
def test_a_lost_shard_is_told_and_comes_back_and_shards_grow_without_losing_a_write(
    cluster: Cluster,
) -> None:
    cluster.deploy("split", index={"shards": 3})
    tenant = f"t-{uuid.uuid4().hex[:12]}"
    with cluster.client(tenant) as memory:
        token = told(memory, range(24))
        assert all(found(memory, each, token) for each in range(24))

        kill_replica(cluster, "VectorIndex-1-of-3")
        lost = report_of(memory)
        assert lost.state is LegState.PARTIAL
        assert lost.reason.startswith("not all was searched; 2 of 3 shards answered; shard 1: ")
        until(lambda: report_of(memory).state is LegState.OK)
        assert all(found(memory, each, token) for each in range(24))

        with writing(memory) as accepted:
            until(lambda: len(accepted) > 5)
            cluster.deploy("split", index={"shards": 2})
            before_the_end = len(accepted)
            until(lambda: len(accepted) > before_the_end + 5)
        token = told(memory, range(24, 25))
        until(lambda: report_of(memory).state is LegState.OK)

        assert all(found(memory, each, token) for each in (*range(25), *accepted))
        assert memory.stats().index.vector_count == 25 + len(accepted)
