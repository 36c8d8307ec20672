"""How the service is: what is stored, how far each projection is, what is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from serving.domain.errors import TriviumError
from serving.domain.records import TenantName
from serving.pipeline.spaces import VectorSpaces
from serving.ports import (
    Catalog,
    ChangeLog,
    EmbeddingModel,
    Graph,
    IndexStatus,
    ProjectionStatus,
    SetAside,
    TenantCounts,
)

MAX_SET_ASIDE = 100
UNKNOWN_COUNT = -1

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What serves, as it was deployed."""

    version: str
    placement: str
    ingress: str
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The state of the service, seen from one tenant."""

    about: About
    tenant: TenantCounts
    projections: list[ProjectionStatus]
    set_aside: list[SetAside]
    index: IndexStatus
    model: EmbeddingModel | None
    entities: int
    degraded: list[str] = field(default_factory=list)


class Observer:
    """Looks at every part; what cannot be reached is named, not raised."""

    def __init__(
        self,
        *,
        about: About,
        catalog: Catalog,
        log: ChangeLog,
        spaces: VectorSpaces,
        graph: Graph,
    ) -> None:
        self._about = about
        self._catalog = catalog
        self._log = log
        self._spaces = spaces
        self._graph = graph

    async def overview(self, tenant: TenantName) -> Overview:
        """Gathers the state.

        Raises:
            StoreUnavailableError: PostgreSQL, which holds most of it, cannot be reached.
        """
        degraded: list[str] = []
        space = self._spaces.current
        model = await _or_else(None, space.embedder.model, "embedder", degraded)
        unknown = IndexStatus(ready=False, vector_count=0, epoch=0, reason="it cannot be reached")
        index = await _or_else(unknown, lambda: space.index.status(tenant), "index", degraded)
        if not index.ready:
            degraded.append(f"index: {index.reason}{self._meanwhile()}")
        elif index.reason:
            degraded.append(f"index: {index.reason}")
        entities = await _or_else(
            UNKNOWN_COUNT, lambda: self._graph.count_entities(tenant), "graph", degraded
        )
        return Overview(
            about=self._about,
            tenant=await self._catalog.tenant_counts(tenant, model),
            projections=await self._log.status(model),
            set_aside=await self._catalog.set_aside(tenant, MAX_SET_ASIDE),
            index=index,
            model=model,
            entities=entities,
            degraded=list(dict.fromkeys(degraded)),
        )

    def _meanwhile(self) -> str:
        return ", the previous model answers" if self._spaces.previous is not None else ""


async def _or_else(
    substitute: Value, ask: Callable[[], Awaitable[Value]], name: str, degraded: list[str]
) -> Value:
    try:
        return await ask()
    except (TriviumError, TimeoutError) as error:
        degraded.append(str(error) or f"{name}: no answer in time")
        return substitute
