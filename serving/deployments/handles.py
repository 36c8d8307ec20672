"""Ports in other deployments: `Remote` calls what a replica has `Exposed`.

Ray's own errors are translated here. A `Deadline` counts on in the other process (`Deadline`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from serving.composition.index import SpaceParts
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, NotReadyError, OverloadedError
from serving.pipeline.index.sharding import ShardedIndex, ShardedSearch
from serving.pipeline.index.vector_space import EmbeddedSearch
from serving.ports.embedding import Embedder, EmbeddingModel
from serving.ports.vector_index import TextSearch, VectorIndex, WholeIndex

STARTING = "starting"
"""Why a port is not ready whose deployment has had no replica yet."""

WAITS_FOR_A_REPLICA = "model"
"""The method without which other deployments cannot start."""

REPLY_S = 0.1
"""How long after its deadline the reply of a call may come."""

Port = TypeVar("Port")


class Exposed:
    """The ports of a replica, by name."""

    _ports: Mapping[str, object]

    async def call(self, port: str, method: str, *arguments: object, **named: object) -> object:
        return await getattr(self._ports[port], method)(*arguments, **named)


class Remote(Generic[Port]):
    """A port of another deployment, whose methods are all asynchronous.

    Args:
        handle: The deployment, which is `Exposed`.
        name: The name of the port there, and in errors.
    """

    def __init__(self, handle: DeploymentHandle[Any], name: str) -> None:
        # This attribute connects the handle: its replicas are then known when calls come.
        self._call: Any = handle.call
        self._name = name

    @property
    def port(self) -> Port:
        """This object as the port that it forwards."""
        return cast(Port, self)

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        return partial(self.call, method)

    async def call(self, method: str, *arguments: object, **named: object) -> Any:
        """Calls a method, and raises its error as the class that was raised remotely.

        Ray wraps an error in a class derived from both its own and the error's, whose text is the
        remote traceback. No caller may see that.

        Raises:
            NotReadyError: The deployment is starting.
            DependencyError: The replica is gone or unreachable.
            OverloadedError: Its queue is full.
            TimeoutError: The deadline among the arguments has passed.
        """
        if method != WAITS_FOR_A_REPLICA and not self._call.running_replicas_populated():
            raise NotReadyError(self._name, STARTING)
        try:
            # A router holds a call back for as long as there is no replica.
            async with asyncio.timeout(_patience([*arguments, *named.values()])):
                return await self._call.remote(self._name, method, *arguments, **named)
        except RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            raise cause from None
        except BackPressureError:
            raise OverloadedError(self._name) from None
        except (RayActorError, DeploymentUnavailableError):
            raise DependencyError(self._name, "the replica cannot be reached") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Ray cancelled the call, not the caller: that must not end the other legs' request.
            raise DependencyError(self._name, "the replica was lost during the call") from None


def _patience(arguments: Sequence[object]) -> float | None:
    """Returns how long a call with these arguments may take; None if none is a deadline."""
    for each in arguments:
        if isinstance(each, Deadline):
            return each.remaining() + REPLY_S
    return None


class RemoteEmbedder(Remote[Embedder]):
    """An `Embedder` of another deployment."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        super().__init__(handle, "embedder")
        self._model: EmbeddingModel | None = None

    async def model(self) -> EmbeddingModel:
        """Returns the model, which is read once: a replica never changes it."""
        if self._model is None:
            self._model = await self.call("model")
        return self._model


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
    embedder = RemoteEmbedder(handles.embedder).port
    indexes = [Remote[WholeIndex](handle, "index").port for handle in handles.index]
    related = indexes[0] if len(indexes) == 1 else None
    index: VectorIndex = related or ShardedIndex(indexes)
    if not handles.searches_text:
        search: TextSearch = EmbeddedSearch(embedder, index)
        return SpaceParts(embedder, index, search, related)
    searches = [Remote[TextSearch](handle, "text search").port for handle in handles.index]
    search = searches[0] if len(searches) == 1 else ShardedSearch(searches)
    return SpaceParts(embedder, index, search, related)
