"""Searches of an engine that answers many at once: what waits while some run goes together."""

from __future__ import annotations

from collections import defaultdict, deque
from concurrent.futures import Future
from contextlib import nullcontext
from typing import NamedTuple

from serving.domain.budget import Deadline
from serving.pipeline.inference.device_watch import Watch
from serving.pipeline.inference.futures import deliver, fail
from serving.ports.embedding import VectorLike
from serving.ports.index_engine import IndexEngine, Neighbours
from serving.ports.vector_index import WantedNeighbours

MAX_TOGETHER = 64
"""Searches at once. A GPU takes hardly longer for this many than for one."""


class WaitingSearch(NamedTuple):
    """A queued search with a checked vector."""

    engine: IndexEngine
    vector: VectorLike
    wanted: WantedNeighbours
    deadline: Deadline
    future: Future[Neighbours]


class SearchQueue:
    """A `WorkQueue` of searches, first in, first out. A step does all that wait.

    A search that was cancelled, or whose deadline has passed, is dropped.

    Args:
        watch: Entered around each use of the engine's device.
    """

    def __init__(self, watch: Watch = nullcontext) -> None:
        self._watch = watch
        self._queue: deque[WaitingSearch] = deque()

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def add(self, search: WaitingSearch) -> None:
        """Queues a search."""
        self._queue.append(search)

    def step(self) -> None:
        # Those of an engine and of the one that is taking its place may wait together.
        by_engine: defaultdict[int, list[WaitingSearch]] = defaultdict(list)
        for _ in range(min(MAX_TOGETHER, len(self._queue))):
            search = self._queue.popleft()
            if search.deadline.passed:
                fail(search.future, TimeoutError())
            elif not search.future.done():
                by_engine[id(search.engine)].append(search)
        for searches in by_engine.values():
            self._run(searches)

    def fail_all(self, error: Exception) -> None:
        while self._queue:
            fail(self._queue.popleft().future, error)

    def _run(self, searches: list[WaitingSearch]) -> None:
        try:
            with self._watch():
                found = searches[0].engine.search_all(
                    [(search.vector, search.wanted) for search in searches]
                )
        except Exception as error:
            for search in searches:
                fail(search.future, error)
            return
        for search, its in zip(searches, found, strict=True):
            deliver(search.future, its)
