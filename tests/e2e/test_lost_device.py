"""A replica with a device is lost under load: its standby gives the same answers."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, cycle

import pytest

from tests.e2e.test_cluster import started
from tests.e2e.test_index_matrix import MEANING_ALONE, kill_replica, report, sentence, store
from tests.fixtures.cluster import Cluster
from tests.support.waiting import until
from trivium import Client
from trivium.values import LegState

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.neo4j,
    pytest.mark.ray,
    pytest.mark.model,
    pytest.mark.timeout(600),
]

ROWS = 24
ASKED = range(0, ROWS, 5)
BUDGET_S = 3.0
"""A router keeps a call for as long as there is no replica: nobody may have to wait for that."""


def nearest(memory: Client, number: int, gap: int = 1) -> tuple[list[str], tuple[str, ...]]:
    """What the dense leg finds, and which of its parts a standby answered.

    A wider gap between two words is another text to a cache of vectors, and the same to the model.
    """
    question = sentence(number).replace(" ", " " * gap, 1)
    answer = memory.retrieve(question, profile_overrides=MEANING_ALONE, timeout=BUDGET_S)
    leg = report(answer)
    assert leg.state is LegState.OK, leg
    assert leg.reason == ""
    return [hit.id for hit in answer.hits], leg.standbys


@contextmanager
def questions_asked(
    memory: Client, right: Sequence[list[str]], gaps: Iterator[int]
) -> Iterator[list[tuple[str, ...]]]:
    """Asks until the end of the block; every answer must be right. Yields what reports say.

    No gap comes twice, or the vector of a question would be there already.
    """
    said: list[tuple[str, ...]] = []
    over = threading.Event()

    def ask() -> None:
        for number, ids in cycle(zip(ASKED, right, strict=True)):
            if over.is_set():
                return
            found, standbys = nearest(memory, number, next(gaps))
            assert found == ids
            said.append(standbys)

    with ThreadPoolExecutor(1) as asker:
        ends = asker.submit(ask)
        try:
            yield said
        finally:
            over.set()
            ends.result()  # a wrong answer says more than what was waited for in vain


@started("with ray.env")
def test_a_lost_replica_is_stood_in_for_by_its_standby_until_it_is_back(cluster: Cluster) -> None:
    cluster.deploy("split", index={"standby": "warm"}, embedder={"standby": "warm"})
    with cluster.client(f"t-{uuid.uuid4().hex[:12]}") as memory:
        token = store(memory, *range(ROWS))
        memory.retrieve(sentence(0), consistency_token=token, profile_overrides=MEANING_ALONE)
        right = [nearest(memory, each)[0] for each in ASKED]

        gaps = count(2)
        for deployment, part in (("VectorIndex", "index"), ("Embedder", "embedder")):
            with questions_asked(memory, right, gaps) as said:
                until(lambda: said[-5:] == [()] * 5)
                kill_replica(cluster, deployment)
                until(lambda: (part,) in said)  # noqa: B023 - called in this round
                until(lambda: said[-1] == ())
            assert set(said) == {(), (part,)}

        assert memory.stats().service.degraded == ()
