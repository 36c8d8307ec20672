"""A handle of a deployment whose one replica is in this process."""

from __future__ import annotations

import pickle
from typing import Any, Self

from serving.deployments.handles import Exposed


class FakeReplica(Exposed):
    """A replica with the given ports."""

    def __init__(self, ports: dict[str, object]) -> None:
        self._ports = ports


class FakeHandle:
    """A handle; arguments, answers and errors cross as copies.

    Args:
        started: Whether the deployment has had a replica.
        ports: By name, as the replica has them.
    """

    def __init__(self, *, started: bool = True, **ports: object) -> None:
        self.started = started
        self._replica = FakeReplica(ports)

    def options(self, **_: str) -> Self:
        """The handle itself: arguments and answers are pickled in any case."""
        return self

    @property
    def call(self) -> Self:
        """The remote method of the same name."""
        return self

    def running_replicas_populated(self) -> bool:
        return self.started

    async def remote(self, *arguments: Any, **named: Any) -> object:
        given, by_name = _copy((arguments, named))
        try:
            return _copy(await self._replica.call(*given, **by_name))
        except Exception as error:
            raise _copy(error) from None


def _copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))
