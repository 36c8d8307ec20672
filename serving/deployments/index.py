"""The vector index as a deployment of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from serving.composition.gpu_share import (
    HEALTH_CHECK_PERIOD_S,
    cap_gpu_memory,
    left_by_lists,
    resources,
)
from serving.composition.index import open_index
from serving.deployments.handles import RemoteEmbedder
from serving.deployments.metrics import RayRecorder
from serving.deployments.replica import Replica
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.query import Query
from serving.domain.shards import WHOLE, Shard
from serving.ports.embedding import VectorLike
from serving.ports.vector_index import IndexAnswer, IndexStatus, WantedNeighbours, WholeIndex


class IndexCalls:
    """The remote methods of a replica with an index, which `handles.RemoteIndex` calls."""

    _index: WholeIndex

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, remaining_s: float
    ) -> IndexAnswer:
        return await self._index.search(vector, wanted, Deadline.after(remaining_s))

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, remaining_s: float
    ) -> IndexAnswer:
        return await self._index.related(query, seeds, depth, Deadline.after(remaining_s))

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return await self._index.count(tenant, items)

    async def caught_up(self, token: ConsistencyToken, remaining_s: float) -> bool:
        return await self._index.caught_up(token, Deadline.after(remaining_s))

    async def outdated_snapshots(self, write: ConsistencyToken, remaining_s: float) -> int:
        return await self._index.outdated_snapshots(write, Deadline.after(remaining_s))

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        return await self._index.status(tenant)


@serve.deployment(
    name="VectorIndex",
    max_ongoing_requests=256,
    ray_actor_options=resources(0),
    graceful_shutdown_timeout_s=10,
    health_check_period_s=HEALTH_CHECK_PERIOD_S,
)
class VectorIndex(Replica, IndexCalls):
    """Searches all rows, or one shard of them."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, arguments: dict[str, Any], embedder: DeploymentHandle[Any], shard: Shard = WHOLE
    ) -> None:
        settings = self._start(arguments)
        cap_gpu_memory(left_by_lists(settings.serve.gpus.index, settings.index))
        self._index = await self._open(
            open_index(settings, RemoteEmbedder(embedder), RayRecorder(), shard)
        )
