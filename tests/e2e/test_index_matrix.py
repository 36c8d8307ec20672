"""The index in every form: written to, rebuilt, and one of its replicas or nodes killed."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count, cycle, product
from pathlib import Path

import psutil
import pytest

from tests.fixtures.cluster import Cluster, added_node, started_cluster
from tests.support.processes import is_alive, tree_of
from tests.support.waiting import until
from trivium import Client, Segment
from trivium.errors import TriviumError
from trivium.values import LegReport, LegState, Retrieval

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]


@dataclass(frozen=True, slots=True)
class Form:
    """A placement, how its index searches, and in how many shares."""

    placement: str
    kind: str
    shards: int = 1

    def __str__(self) -> str:
        return f"{self.placement}-{self.kind}-{self.shards}"

    @property
    def replica(self) -> str:
        """The deployment of the process that a test kills."""
        if self.placement == "single":
            return "Ingress"
        name = "VectorIndex" if self.placement == "split" else "VectorSpace"
        return name if self.shards == 1 else f"{name}-1-of-{self.shards}"

    def deploy(self, cluster: Cluster) -> None:
        """Takes the place of whatever is deployed."""
        file = "single" if self.placement == "single" else "split"
        index = {"kind": self.kind, "shards": self.shards}
        cluster.deploy(file, serve={"placement": self.placement}, index=index)


FORMS = (
    *(Form("single", kind) for kind in ("exact", "ivf")),
    *(Form(*each) for each in product(("split", "gpu"), ("exact", "ivf"), (1, 3))),
)

STORED = 192
"""Sentences at the start: enough for lists, in each of three shards too."""

WORDS = ("sailed", "cooked", "painted", "sold", "found", "lost", "drew", "fixed")
THINGS = ("a boat", "rice", "the fence", "two lamps", "her keys", "a map", "his bike", "a ring")
REPETITION_FIRST = {"current_first": False}
"""By default, what repeats the question is put behind what may answer it."""

MEANING_ALONE = {
    "legs": {leg: {"weight": 0} for leg in ("lexical", "context", "facts", "graph", "related")},
    "signals": {"speaker": 0, "time": 0},
    **REPETITION_FIRST,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" in metafunc.fixturenames:
        metafunc.parametrize("cluster", ["with ray.env"], indirect=True, scope="session")
    if "form" in metafunc.fixturenames:
        metafunc.parametrize("form", FORMS, ids=str)


def sentence(number: int) -> str:
    did, thing = WORDS[number % 8], THINGS[number // 8 % 8]
    return f"On day {number} somebody {did} {thing}."


def store(memory: Client, *numbers: int) -> str:
    """Stores a sentence for each number; returns the token."""
    return memory.ingest(
        [Segment(id=str(each), text=sentence(each)) for each in numbers]
    ).consistency_token


def asked(memory: Client, number: int, token: str = "", timeout: float = 30.0) -> Retrieval:
    """What meaning alone brings to a question that repeats the sentence."""
    return memory.retrieve(
        sentence(number), consistency_token=token, profile_overrides=MEANING_ALONE, timeout=timeout
    )


def report(answer: Retrieval) -> LegReport:
    return next(each for each in answer.leg_reports if each.leg == "dense")


def finds(memory: Client, number: int, token: str) -> bool:
    answer = asked(memory, number, token)
    assert report(answer).state is LegState.OK, report(answer)
    return answer.hits[0].id == str(number)


def kill_replica(cluster: Cluster, deployment: str) -> None:
    # A busy one adds what it does, and names of other deployments may begin with its own.
    title = re.compile(rf"ray::ServeReplica:trivium:{deployment}(?![\w-])")
    [replica] = [
        process
        for process in tree_of(cluster.process.pid)
        if title.match(" ".join(process.cmdline()))
    ]
    replica.kill()
    replica.wait(30)


def accepted_during(memory: Client, event: Callable[[], None]) -> list[int]:
    """Stores sentences before, during and after an event; returns those that were accepted."""
    accepted: list[int] = []
    over = threading.Event()

    def write() -> None:
        for number in count(1000):
            if over.is_set():
                return
            try:
                store(memory, number)
            except TriviumError:
                continue  # it was not accepted: the process that took it is gone
            accepted.append(number)

    with ThreadPoolExecutor(1) as writer:
        ends = writer.submit(write)
        try:
            until(lambda: len(accepted) > 5)
            event()
            had = len(accepted)
            until(lambda: len(accepted) > had + 5)
        finally:
            over.set()
        ends.result()
    return accepted


def answered(memory: Client, number: int) -> LegState:
    """The state of the leg after 1.5 s; FAILED if there is no answer."""
    try:
        return report(asked(memory, number, timeout=1.5)).state
    except TriviumError:
        return LegState.FAILED


def test_index_survives_writes_deletions_rebuild_and_lost_replica(
    cluster: Cluster, form: Form
) -> None:
    form.deploy(cluster)
    with cluster.client(f"t-{uuid.uuid4().hex[:12]}") as memory:
        token = store(memory, *range(STORED))
        assert all(finds(memory, each, token) for each in range(0, STORED, 8))
        if form.kind == "ivf":
            until(lambda: partitions_in_lists(memory) == form.shards)
        before = memory.stats().index.epoch

        gone = range(1, STORED, 3)
        memory.forget(segment_ids=[str(each) for each in gone])
        renamed = Segment(id="0", text="A heron stood in the shallow water.")
        token = memory.ingest([renamed]).consistency_token
        assert asked(memory, 1, token).hits[0].id != "1"
        found = memory.retrieve(
            renamed.text, consistency_token=token, profile_overrides=MEANING_ALONE
        )
        assert found.hits[0].id == "0"
        if form.kind == "ivf":
            until(lambda: memory.stats().index.epoch > before)  # a third was dead

        def lose_replica() -> None:
            kill_replica(cluster, form.replica)
            until(lambda: answered(memory, 2) is LegState.OK)

        accepted = accepted_during(memory, lose_replica)
        token = store(memory, STORED)
        kept = [each for each in range(2, STORED + 1) if each not in gone]
        assert all(finds(memory, each, token) for each in [*kept[::8], STORED, *accepted])
        left = {hit.id for each in gone[::8] for hit in asked(memory, each, token).hits}
        assert not left & {str(each) for each in gone}


def partitions_in_lists(memory: Client) -> int:
    tiers = memory.stats().index.tiers
    return sum(tier.approximate for tier in tiers if tier.kind == "segment")


def test_changed_number_of_shards_loses_no_write(cluster: Cluster) -> None:
    Form("split", "exact", 3).deploy(cluster)
    with cluster.client(f"t-{uuid.uuid4().hex[:12]}") as memory:
        token = store(memory, *range(24))
        assert all(finds(memory, each, token) for each in range(24))

        kill_replica(cluster, "VectorIndex-1-of-3")
        # A call with time left waits for the shard, which needs more than a second.
        lost = report(asked(memory, 1, timeout=1.5))
        assert lost.state is LegState.PARTIAL
        assert lost.reason.startswith("not all was searched; 2 of 3 shards answered; shard 1: ")
        until(lambda: answered(memory, 1) is LegState.OK)

        accepted = accepted_during(memory, lambda: Form("split", "exact", 2).deploy(cluster))
        token = store(memory, 24)
        until(lambda: answered(memory, 1) is LegState.OK)

        assert all(finds(memory, each, token) for each in (*range(25), *accepted))
        assert memory.stats().index.vector_count >= 25 + len(accepted)


def test_words_answer_without_embedder_and_index(cluster: Cluster) -> None:
    Form("split", "exact").deploy(cluster)
    with cluster.client(f"t-{uuid.uuid4().hex[:12]}") as memory:
        token = store(memory, *range(24))
        assert finds(memory, 1, token)

        kill_replica(cluster, "Embedder")
        kill_replica(cluster, "VectorIndex")
        answer = memory.retrieve(sentence(1), profile_overrides=REPETITION_FIRST, timeout=1.5)
        assert answer.hits[0].id == "1"
        assert report(answer).state is not LegState.OK

        until(lambda: answered(memory, 1) is LegState.OK)


SPREAD = 64
"""Sentences on three nodes."""

REPLICA = "ray::ServeReplica:trivium:"


@pytest.fixture
def nodes(
    wheel_python: Path, empty_stores: dict[str, str]
) -> Iterator[tuple[Cluster, list[psutil.Process]]]:
    """A cluster, and its two nodes that are not the first."""
    with ExitStack() as ends:
        cluster = ends.enter_context(started_cluster(wheel_python, empty_stores, []))
        yield cluster, [ends.enter_context(added_node(cluster)) for _ in range(2)]


def replicas_of(node: psutil.Process) -> list[str]:
    titles = (" ".join(each.cmdline()) for each in tree_of(node.pid) if is_alive(each))
    return [title.removeprefix(REPLICA) for title in titles if title.startswith(REPLICA)]


def test_lost_node_loses_no_accepted_write(nodes: tuple[Cluster, list[psutil.Process]]) -> None:
    cluster, others = nodes
    serve = {"placement": "split", "replicas": 2}
    cluster.deploy("split", serve=serve, index={"shards": 2})
    # Serve spreads the two shards over the nodes, so the first one has not both.
    lost = next(node for node in others if "VectorIndex" in str(replicas_of(node)))

    with cluster.client(f"t-{uuid.uuid4().hex[:12]}") as memory:
        token = store(memory, *range(SPREAD))
        assert all(finds(memory, each, token) for each in range(SPREAD))

        def lose_node() -> None:
            for each in tree_of(lost.pid):
                each.kill()
            answers_in_full_again(memory)

        accepted = accepted_during(memory, lose_node)
        token = store(memory, SPREAD)
        assert all(finds(memory, each, token) for each in (*range(SPREAD + 1), *accepted))


def answers_in_full_again(memory: Client) -> None:
    """Asks until an answer after an incomplete one is complete; none hides what it lacks."""
    incomplete = False
    for number in cycle(range(SPREAD)):
        try:
            answer = asked(memory, number, timeout=1.5)
        except TriviumError:
            incomplete = True
            continue
        if report(answer).state is not LegState.OK:
            assert report(answer).reason
            incomplete = True
        else:
            assert answer.hits[0].id == str(number)
            if incomplete:
                return
