"""Ports over deployment handles: where Ray's own errors end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from serving.deployments.components import Elsewhere
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, OverloadedError
from serving.domain.records import ItemId, TenantName
from serving.pipeline.failover import (
    Embedded,
    FailoverEmbeddedSearch,
    FailoverEmbedder,
    FailoverIndex,
    FailoverSearch,
    questions_of,
    ready_index,
)
from serving.pipeline.semantic import EmbeddedSearch, QuestionVectors
from serving.pipeline.sharding import ShardedIndex, ShardedSearch
from serving.ports import (
    Embedder,
    EmbeddingModel,
    IndexAnswer,
    IndexStatus,
    SemanticSearch,
    Vector,
    VectorIndex,
    VectorLike,
    Vectors,
    WantedNeighbours,
)

Value = TypeVar("Value")


async def unwrapped(call: Awaitable[Value], name: str) -> Value:
    """Awaits a handle's call; a remote error of ours comes back as itself.

    Ray hands errors over as classes derived from both its own and ours, whose text is
    the remote traceback; nobody above may see one.

    Raises:
        DependencyError: The replica is gone or out of reach.
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


class RemoteEmbedder:
    """The embedder of another deployment."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle: Any = handle
        self._model: EmbeddingModel | None = None

    async def model(self) -> EmbeddingModel:
        """The model; asked once, since a replica keeps its model."""
        if self._model is None:
            model: EmbeddingModel = await unwrapped(self._handle.model.remote(), "embedder")
            self._model = model
        return self._model

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        """Embeds a question in the time that remains."""
        call = self._handle.embed_query.remote(text, deadline.remaining())
        return await unwrapped(call, "embedder")

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """Embeds texts in the bulk lane."""
        return await unwrapped(self._handle.embed_documents.remote(list(texts)), "embedder")


class RemoteQuestionEmbedder:
    """The twin of an embedder, in another deployment."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle: Any = handle

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        """Embeds a question in the time that remains."""
        call = self._handle.embed_query.remote(text, deadline.remaining())
        return await unwrapped(call, "embedder")


class RemoteIndex:
    """The vector index of another deployment."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle: Any = handle

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours of a vector in the time that remains."""
        call = self._handle.search.remote(vector, wanted, deadline.remaining())
        return await unwrapped(call, "index")

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it still holds."""
        return await unwrapped(self._handle.count.remote(tenant, list(items)), "index")

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until the index has seen the write."""
        return await unwrapped(self._handle.caught_up.remote(token, deadline.remaining()), "index")

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """Its state."""
        return await unwrapped(self._handle.status.remote(tenant), "index")


class RemoteSemanticSearch:
    """An embedder and its index, both in another deployment: one call asks them."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle: Any = handle

    async def search(self, text: str, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        """Embeds a question and finds what is nearest to it, in the time that remains."""
        call = self._handle.search_text.remote(text, wanted, deadline.remaining())
        return await unwrapped(call, "embedder and index")


class RemoteReranker:
    """The reranker of another deployment."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle: Any = handle

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        """The raw logit of each text's relevance, in the time that remains."""
        call = self._handle.rerank.remote(query, list(texts), deadline.remaining())
        return await unwrapped(call, "reranker")


@dataclass(frozen=True, slots=True)
class SpaceHandles:
    """What of a vector space is deployed by itself; `index` and `semantic` shard by shard.

    `index_twins` are as many as `index`, or none.
    """

    embedder: DeploymentHandle[Any] | None = None
    index: Sequence[DeploymentHandle[Any]] = ()
    semantic: Sequence[DeploymentHandle[Any]] = ()
    embedder_twin: DeploymentHandle[Any] | None = None
    index_twins: Sequence[DeploymentHandle[Any]] = ()


def elsewhere(handles: SpaceHandles) -> Elsewhere:
    """What of a vector space the placement has elsewhere; nothing, if there are no handles."""
    embedder = remote_embedder(handles.embedder)
    questions = None
    if embedder is not None and handles.embedder_twin is not None:
        embedder = FailoverEmbedder(embedder, RemoteQuestionEmbedder(handles.embedder_twin))
        questions = questions_of(embedder)
    index = _one_of(_indexes(handles), ShardedIndex)
    semantic = _one_of(_semantic(handles, embedder, questions), ShardedSearch)
    if semantic is None and questions is not None and index is not None:
        semantic = FailoverEmbeddedSearch(questions, index)
    return Elsewhere(embedder, index, semantic)


def _indexes(handles: SpaceHandles) -> list[VectorIndex]:
    """The index of each shard; with twins, each with its own."""
    alone: list[VectorIndex] = [RemoteIndex(handle) for handle in handles.index]
    if not handles.index_twins:
        return alone
    twins = [RemoteIndex(handle) for handle in handles.index_twins]
    return [FailoverIndex(index, twin) for index, twin in zip(alone, twins, strict=True)]


def _semantic(
    handles: SpaceHandles,
    embedder: Embedder | None,
    questions: QuestionVectors[Embedded] | None,
) -> list[SemanticSearch]:
    """What is asked of each shard with a question's text; with twins, each over that of its index.

    If the embedder has no twin, that of another shard may still embed.
    """
    alone: list[SemanticSearch] = [RemoteSemanticSearch(handle) for handle in handles.semantic]
    if not alone or not handles.index_twins or embedder is None:
        return alone
    twins = [RemoteIndex(handle) for handle in handles.index_twins]

    def by_twin(index: VectorIndex) -> SemanticSearch:
        if questions is None:
            return EmbeddedSearch(embedder, index)
        return FailoverEmbeddedSearch(questions, index)

    checks = [ready_index(RemoteIndex(handle)) for handle in handles.index]
    return [
        FailoverSearch(search, check, by_twin(twin))
        for search, check, twin in zip(alone, checks, twins, strict=True)
    ]


def _one_of(shards: Sequence[Value], together: Callable[[Sequence[Value]], Value]) -> Value | None:
    """A single shard as it is, several as one, none as None."""
    if len(shards) > 1:
        return together(shards)
    return shards[0] if shards else None


def remote_embedder(handle: DeploymentHandle[Any] | None) -> Embedder | None:
    """The embedder behind a handle, if the placement has one."""
    return RemoteEmbedder(handle) if handle is not None else None


def remote_reranker(handle: DeploymentHandle[Any] | None) -> RemoteReranker | None:
    """The reranker behind a handle, if the placement has one."""
    return RemoteReranker(handle) if handle is not None else None
