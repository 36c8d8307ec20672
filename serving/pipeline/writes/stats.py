"""The state of the service: what is stored, how far each projection is, what is degraded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from serving.domain.breaker import Breaker
from serving.domain.errors import TriviumError
from serving.domain.items.records import TenantName
from serving.pipeline.index.merging import status_of
from serving.pipeline.index.vector_space import VectorSpace
from serving.ports.change_log import ChangeLog, DeadLetter, ProjectionStatus
from serving.ports.embedding import EmbeddingModel
from serving.ports.graph import Graph
from serving.ports.memory_store import Catalog, TenantCounts
from serving.ports.vector_index import IndexStatus

MAX_DEAD_LETTERS = 100
UNKNOWN_COUNT = -1
PATIENCE_S = 0.75
"""The time that each part has to answer. They are asked in two steps, which end well within the
two seconds that clients wait."""

KEPT_S = 5.0
"""The lifetime of the counts of a large tenant that came too late for their caller."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The deployed service."""

    version: str
    placement: str
    ingress: str
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The state of the service, for one tenant."""

    about: About
    tenant: TenantCounts | None
    """None if PostgreSQL did not count in time."""
    projections: list[ProjectionStatus]
    dead_letters: list[DeadLetter]
    index: IndexStatus
    model: EmbeddingModel | None
    entities: int
    degraded: list[str] = field(default_factory=list)


class Observer:
    """Reads the state of every part; parts that cannot be reached are listed, not raised."""

    def __init__(
        self,
        *,
        about: About,
        catalog: Catalog,
        log: ChangeLog,
        space: VectorSpace,
        graph: Graph,
        breakers: Sequence[Breaker] = (),
    ) -> None:
        self._about = about
        self._catalog = catalog
        self._log = log
        self._space = space
        self._graph = graph
        self._breakers = breakers
        self._model: EmbeddingModel | None = None
        """The model as it was last known, to count its vectors while the embedder is lost."""
        self._counting: dict[TenantName, asyncio.Task[TenantCounts]] = {}

    async def overview(self, tenant: TenantName) -> Overview:
        """Reads the state. Never raises: what is missing is listed in `degraded`."""
        degraded: list[str] = []
        model, index, entities = await asyncio.gather(
            _or_else(self._model, self._space.embedder.model(), "embedder", degraded),
            status_of(self._space.index, tenant),
            _or_else(UNKNOWN_COUNT, self._graph.count_entities(tenant), "graph", degraded),
        )
        self._model = model
        counts, projections, dead_letters = await asyncio.gather(
            _or_else(None, self._count(tenant, model), "counts", degraded),
            _or_else([], self._log.status(model), "projections", degraded),
            _or_else(
                [], self._catalog.dead_letters(tenant, MAX_DEAD_LETTERS), "dead letters", degraded
            ),
        )
        if not index.ready:
            degraded.append(f"index: {index.reason}")
        degraded += [f"{each.name}: {each.trouble}" for each in self._breakers if each.trouble]
        return Overview(
            about=self._about,
            tenant=counts,
            projections=projections,
            dead_letters=dead_letters,
            index=index,
            model=model,
            entities=entities,
            degraded=list(dict.fromkeys(degraded)),
        )

    async def _count(self, tenant: TenantName, model: EmbeddingModel | None) -> TenantCounts:
        """Counts; what takes longer than the caller waits goes on, for the caller after it."""
        task = self._counting.get(tenant)
        if task is None:
            task = asyncio.create_task(self._catalog.tenant_counts(tenant, model), name="counts")
            task.add_done_callback(lambda done: self._counted(tenant, done))
            self._counting[tenant] = task
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._counting.pop(tenant, None)

    def _counted(self, tenant: TenantName, done: asyncio.Task[TenantCounts]) -> None:
        def forget() -> None:
            if self._counting.get(tenant) is done:
                del self._counting[tenant]

        failed = done.cancelled() or done.exception() is not None
        asyncio.get_running_loop().call_later(0 if failed else KEPT_S, forget)


async def _or_else(
    substitute: Value, answer: Awaitable[Value], name: str, degraded: list[str]
) -> Value:
    """Awaits the answer of a part, but not for as long as it takes a lost one to come back."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await answer
    except (TriviumError, TimeoutError) as error:
        degraded.append(str(error) or f"{name}: no answer in time")
        return substitute
