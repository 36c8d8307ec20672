"""Searches of an engine that answers many at once: those of one turn of the event loop go together.

They run in the event loop. A GPU answers dozens in about the time that waking a thread takes, and
questions that were embedded together are also searched for together.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import nullcontext
from typing import NamedTuple

from serving.pipeline.inference.device_watch import Watch
from serving.ports.embedding import VectorLike
from serving.ports.index_engine import IndexEngine, Neighbours
from serving.ports.vector_index import WantedNeighbours


class _Waiting(NamedTuple):
    vector: VectorLike
    wanted: WantedNeighbours
    future: asyncio.Future[Neighbours]


class SearchQueue:
    """Searches for the end of this turn of the event loop."""

    def __init__(self, watch: Watch = nullcontext) -> None:
        self._watch = watch
        # By engine, since one may be taking the place of another.
        self._waiting: defaultdict[IndexEngine, list[_Waiting]] = defaultdict(list)

    async def search(
        self, engine: IndexEngine, vector: VectorLike, wanted: WantedNeighbours
    ) -> Neighbours:
        """Searches for a checked vector, together with all that wait."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._run)
        future: asyncio.Future[Neighbours] = loop.create_future()
        self._waiting[engine].append(_Waiting(vector, wanted, future))
        return await future

    def _run(self) -> None:
        by_engine, self._waiting = self._waiting, defaultdict(list)
        for engine, searches in by_engine.items():
            wanted = [search for search in searches if not search.future.done()]
            if wanted:
                self._search(engine, wanted)

    def _search(self, engine: IndexEngine, searches: list[_Waiting]) -> None:
        try:
            with self._watch():
                found = engine.search_all([(each.vector, each.wanted) for each in searches])
        except Exception as error:
            for search in searches:
                search.future.set_exception(error)
            return
        for search, its in zip(searches, found, strict=True):
            search.future.set_result(its)
