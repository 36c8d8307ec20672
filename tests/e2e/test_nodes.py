"""A cluster of three nodes, of which one is lost under load."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import psutil
import pytest

from tests.e2e.test_index_matrix import asked, finds, report, store, writing
from tests.fixtures.cluster import Cluster, added_node, started_cluster
from tests.support.processes import is_alive, tree_of
from tests.support.waiting import until
from trivium import Client
from trivium.errors import TriviumError
from trivium.values import LegState

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

STORED = 64
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


def lose(node: psutil.Process) -> None:
    for each in tree_of(node.pid):
        each.kill()


def test_lost_node_loses_no_accepted_write(nodes: tuple[Cluster, list[psutil.Process]]) -> None:
    cluster, others = nodes
    serve = {"placement": "split", "replicas": 2}
    cluster.deploy("split", serve=serve, index={"shards": 2})
    # Serve spreads the two shards over the nodes, so the first one has not both.
    lost = next(node for node in others if "VectorIndex" in str(replicas_of(node)))

    with cluster.client(f"t-{uuid.uuid4().hex[:12]}") as memory:
        token = store(memory, *range(STORED))
        assert all(finds(memory, each, token) for each in range(STORED))
        with writing(memory) as accepted:
            until(lambda: len(accepted) > 5)
            lose(lost)
            answers_in_full_again(memory)
            before = len(accepted)
            until(lambda: len(accepted) > before + 5)

        token = store(memory, STORED)
        assert all(finds(memory, each, token) for each in (*range(STORED + 1), *accepted))


def answers_in_full_again(memory: Client) -> None:
    """Asks until an answer after an incomplete one is complete; none hides what it lacks."""
    incomplete = False
    for number in cycle(range(STORED)):
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
