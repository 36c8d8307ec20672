"""Ports over deployment handles. Ray's own errors are translated here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from serving.composition.index import SpaceParts
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, OverloadedError
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.query import Query
from serving.pipeline.index.sharding import ShardedIndex, ShardedSearch
from serving.pipeline.index.text_search import EmbeddedSearch, QuestionVectors
from serving.ports.embedding import EmbeddingModel, Vector, VectorLike, Vectors
from serving.ports.vector_index import (
    IndexAnswer,
    IndexStatus,
    TextSearch,
    VectorIndex,
    WantedNeighbours,
    WholeIndex,
)

Value = TypeVar("Value")


async def unwrapped(call: Awaitable[Value], name: str) -> Value:
    """Awaits a handle's call and raises its error as the class that was raised remotely.

    Ray wraps an error in a class derived from both its own and the error's, whose text is the
    remote traceback. No caller may see that.

    Raises:
        DependencyError: The replica is gone or unreachable.
        OverloadedError: Its queue is full.
    """
    try:
        return await call
    except RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        raise cause from None
    except BackPressureError:
        raise OverloadedError(name) from None
    except (RayActorError, DeploymentUnavailableError):
        raise DependencyError(name, "its replica cannot be reached") from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Ray cancelled the call, not the caller: that must not end the other legs' request.
        raise DependencyError(name, "its replica was lost during the call") from None


class RemoteEmbedder:
    """An `Embedder` in another deployment."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle: Any = handle
        self._model: EmbeddingModel | None = None

    async def model(self) -> EmbeddingModel:
        """Returns the model, which is read once: a replica never changes it."""
        if self._model is None:
            model: EmbeddingModel = await unwrapped(self._handle.model.remote(), "embedder")
            self._model = model
        return self._model

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        call = self._handle.embed_query.remote(text, deadline.remaining())
        return await unwrapped(call, "embedder")

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return await unwrapped(self._handle.embed_documents.remote(list(texts)), "embedder")


class RemoteIndex:
    """A `WholeIndex` in another deployment, or a shard, of which `related` is not called."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle: Any = handle

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        call = self._handle.search.remote(vector, wanted, deadline.remaining())
        return await unwrapped(call, "index")

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> IndexAnswer:
        call = self._handle.related.remote(query, list(seeds), depth, deadline.remaining())
        return await unwrapped(call, "index")

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return await unwrapped(self._handle.count.remote(tenant, list(items)), "index")

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        return await unwrapped(self._handle.caught_up.remote(token, deadline.remaining()), "index")

    async def outdated_snapshots(self, write: ConsistencyToken, deadline: Deadline) -> int:
        call = self._handle.outdated_snapshots.remote(write, deadline.remaining())
        return await unwrapped(call, "index")

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        return await unwrapped(self._handle.status.remote(tenant), "index")


class RemoteTextSearch:
    """A `TextSearch` in another deployment, which has both an embedder and an index."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle: Any = handle

    async def search(self, text: str, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        call = self._handle.search_text.remote(text, wanted, deadline.remaining())
        return await unwrapped(call, "embedder and index")


class RemoteReranker:
    """A `Reranker` in another deployment."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle: Any = handle

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        call = self._handle.rerank.remote(query, list(texts), deadline.remaining())
        return await unwrapped(call, "reranker")


@dataclass(frozen=True, slots=True)
class SpaceHandles:
    """The deployments of a vector space.

    Attributes:
        embedder: The embedder.
        index: The index, shard by shard; at least one.
        searches_text: Whether the replicas of `index` embed questions themselves.
    """

    embedder: DeploymentHandle[Any]
    index: Sequence[DeploymentHandle[Any]]
    searches_text: bool = False


def remote_space(handles: SpaceHandles | None) -> SpaceParts:
    """Returns the ports over a space's handles; nothing if the placement has none."""
    if handles is None:
        return SpaceParts()
    embedder = RemoteEmbedder(handles.embedder)
    indexes: list[WholeIndex] = [RemoteIndex(handle) for handle in handles.index]
    related = indexes[0] if len(indexes) == 1 else None
    index: VectorIndex = related or ShardedIndex(indexes)
    if not handles.searches_text:
        search: TextSearch = EmbeddedSearch(QuestionVectors(embedder), index)
        return SpaceParts(embedder, index, search, related)
    searches: list[TextSearch] = [RemoteTextSearch(handle) for handle in handles.index]
    search = searches[0] if len(searches) == 1 else ShardedSearch(searches)
    return SpaceParts(embedder, index, search, related)
