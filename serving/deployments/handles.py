"""Ports in other deployments: `Remote` calls what a replica has `Exposed`.

Calls that are made at once, as those of a question's legs, travel as one: a request to a replica
takes more CPU time than most of them do. Ray's own errors are translated here. A `Deadline` counts
on in the other process (`Deadline`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from serving.composition.index import SpaceParts
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, NotReadyError, OverloadedError, TriviumError
from serving.pipeline.index.sharding import ShardedIndex, ShardedSearch
from serving.pipeline.index.vector_space import EmbeddedSearch
from serving.ports.embedding import Embedder, EmbeddingModel
from serving.ports.vector_index import TextSearch, VectorIndex, WholeIndex

logger = logging.getLogger(__name__)

PICKLE = "pickle"

STARTING = "starting"
"""Why a port is not ready whose deployment has had no replica yet."""

WAITS_FOR_A_REPLICA = "model"
"""The method without which other deployments cannot start."""

REPLY_S = 0.1
"""Maximum delay of the reply of a call after its deadline."""

Port = TypeVar("Port")


class Call(NamedTuple):
    """A call of a method of a port."""

    port: str
    method: str
    arguments: Sequence[object]
    named: Mapping[str, object]


class Exposed:
    """The ports of a replica, by name."""

    _ports: Mapping[str, object]

    async def call(self, calls: Sequence[Call]) -> list[object]:
        """Returns what each call returned or raised."""
        return await asyncio.gather(*map(self._answer, calls), return_exceptions=True)

    async def _answer(self, call: Call) -> object:
        try:
            return await getattr(self._ports[call.port], call.method)(*call.arguments, **call.named)
        except (TriviumError, TimeoutError):
            raise
        except Exception:
            logger.exception("call failed", extra={"port": call.port, "method": call.method})
            raise


class _Request:
    """Calls on their way to a replica."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.waiting = 0
        self.task: asyncio.Task[list[object]]


class Calls:
    """The calls of an `Exposed` deployment: those that are made at once are sent as one request."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        # Ray's default pickles in Python, for classes that the other process cannot import.
        plain: Any = handle.options(request_serialization=PICKLE, response_serialization=PICKLE)
        # This attribute connects the handle: its replicas are then known when calls come.
        self._remote: Any = plain.call
        self._open: _Request | None = None

    @property
    def has_replicas(self) -> bool:
        """Whether the deployment has had a replica."""
        return bool(self._remote.running_replicas_populated())

    async def send(self, call: Call) -> object:
        """Returns what the call returned or raised; a request that nobody waits for is cancelled.

        Raises:
            Exception: Ray's, for the whole request.
        """
        if (request := self._open) is None:
            request = self._open = _Request()
            request.task = asyncio.create_task(self._sent(request))
        number = len(request.calls)
        request.calls.append(call)
        request.waiting += 1
        try:
            return (await asyncio.shield(request.task))[number]
        finally:
            request.waiting -= 1
            if not request.waiting:
                self._close(request)
                request.task.cancel()

    async def _sent(self, request: _Request) -> list[object]:
        # This task begins after all that was ready when it was made: the other legs.
        self._close(request)
        answers: list[object] = await self._remote.remote(request.calls)
        return answers

    def _close(self, request: _Request) -> None:
        if self._open is request:
            self._open = None


class Remote(Generic[Port]):
    """A port of another deployment, whose methods are all asynchronous.

    The port has `name` there, and in errors.
    """

    def __init__(self, calls: Calls, name: str) -> None:
        self._calls = calls
        self._name = name

    @property
    def port(self) -> Port:
        """This object as the port that it forwards."""
        return cast(Port, self)

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        return partial(self.call, method)

    async def call(self, method: str, *arguments: object, **named: object) -> Any:
        """Calls a method, and raises what it raised.

        Ray wraps an error of the request in a class derived from both its own and the error's,
        whose text is the remote traceback. No caller may see that.

        Raises:
            NotReadyError: The deployment is starting.
            DependencyError: The replica is gone or unreachable.
            OverloadedError: Its queue is full.
            TimeoutError: The deadline among the arguments has passed.
        """
        if method != WAITS_FOR_A_REPLICA and not self._calls.has_replicas:
            raise NotReadyError(self._name, STARTING)
        given = (*arguments, *named.values())
        waits_s = (each.remaining() + REPLY_S for each in given if isinstance(each, Deadline))
        try:
            # A router holds a call back for as long as there is no replica.
            async with asyncio.timeout(next(waits_s, None)):
                answer = await self._calls.send(Call(self._name, method, arguments, named))
            if isinstance(answer, BaseException):
                raise answer
            return answer
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


class RemoteEmbedder(Remote[Embedder]):
    """An `Embedder` of another deployment."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        super().__init__(Calls(handle), "embedder")
        self._model: EmbeddingModel | None = None

    async def model(self) -> EmbeddingModel:
        """Returns the model, which is read once: a replica never changes it."""
        if self._model is None:
            self._model = await self.call("model")
        return self._model


@dataclass(frozen=True, slots=True)
class SpaceHandles:
    """The deployments of a vector space; its index has at least one shard."""

    embedder: DeploymentHandle[Any]
    index: Sequence[DeploymentHandle[Any]]
    searches_text: bool = False
    """Whether the replicas of `index` embed questions themselves."""


def remote_space(handles: SpaceHandles | None, kept_questions: int) -> SpaceParts:
    """Returns the ports over a space's handles; nothing if the placement has none."""
    if handles is None:
        return SpaceParts()
    embedder = RemoteEmbedder(handles.embedder).port
    shards = [Calls(handle) for handle in handles.index]
    indexes = [Remote[WholeIndex](calls, "index").port for calls in shards]
    whole = indexes[0] if len(indexes) == 1 else None
    index: VectorIndex = whole or ShardedIndex(indexes)
    if not handles.searches_text:
        search: TextSearch = EmbeddedSearch(embedder, index, kept_questions)
        return SpaceParts(embedder, index, search, whole)
    searches = [Remote[TextSearch](calls, "text search").port for calls in shards]
    search = searches[0] if len(searches) == 1 else ShardedSearch(searches)
    return SpaceParts(embedder, index, search, whole)
