"""Several connections to the service, used round-robin.

HAProxy allows a hundred concurrent calls on a connection. More would queue in the client and count
as time of the server.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import AsyncIterator, Sequence
from typing import Unpack

from bench.harness.collection import Query
from trivium.aio import AsyncClient
from trivium.tuning import Profile
from trivium.values import BriefingOptions, Retrieval
from trivium.wire.requests import RetrieveOptions

CALLS_PER_CONNECTION = 8
MAX_CONNECTIONS = 8
CALL_TIMEOUT_S = 5.0
"""Long enough that no leg is cut short at the loads measured: a cut answer is no answer."""

LIMIT = 10

NOBODY = "bench"
"""The tenant of calls that need none."""


def connections_for(in_flight: int) -> int:
    """The number of connections for that many calls at once."""
    return min(MAX_CONNECTIONS, math.ceil(in_flight / CALLS_PER_CONNECTION))


class Connections:
    """A few clients over connections of their own, for tenants whose names end with the suffix."""

    def __init__(self, clients: Sequence[AsyncClient], suffix: str = "") -> None:
        self._clients = clients
        self._turn = itertools.cycle(clients)
        self._suffix = suffix

    def apart(self, suffix: str) -> Connections:
        """The same connections for tenants of other names, which share no data with others."""
        return Connections(self._clients, suffix)

    def client(self, tenant: str) -> AsyncClient:
        """A client for the tenant, over the next connection."""
        return next(self._turn).for_tenant(tenant + self._suffix)

    async def profiles(self) -> tuple[Profile, ...]:
        """The ranking profiles that the service has."""
        return tuple([each async for each in self.client(NOBODY).list_profiles()])

    async def ask(
        self,
        query: Query,
        *,
        timeout: float = CALL_TIMEOUT_S,
        briefing: BriefingOptions | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> Retrieval:
        """Asks a question within its own tenant, as of its own time, with options of the client."""
        options.setdefault("limit", LIMIT)
        options.setdefault("as_of", query.as_of)
        return await self.client(query.tenant).retrieve(
            query.text, timeout=timeout, briefing=briefing, **options
        )


@contextlib.asynccontextmanager
async def connected(address: str, count: int) -> AsyncIterator[Connections]:
    """Opens connections, and closes them at the end.

    Raises:
        UnavailableError: Nothing answers there.
    """
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(AsyncClient(address, tenant=NOBODY))
            for _ in range(count)
        ]
        for client in clients:
            await client.connect(timeout=10)
        yield Connections(clients)
