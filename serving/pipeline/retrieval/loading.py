"""Reads of one question: from memory, or from PostgreSQL behind its breaker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from typing import TypeVar

from serving.domain.breaker import POSTGRES, DependencyCalls
from serving.domain.budget import Deadline
from serving.domain.errors import (
    BreakerOpenError,
    BudgetExhaustedError,
    StoreUnavailableError,
    TriviumError,
)
from serving.domain.items.records import Item, ItemId, is_expired
from serving.domain.questions.query import Query
from serving.ports.access_log import AccessLog
from serving.ports.memory_store import MemoryStore
from serving.ports.resident_view import ResidentView

Read = TypeVar("Read")


@dataclass
class Loading:
    """Reads rows, each once, and measures the time that takes; and what else is asked of a tenant.

    Here, where every row of an answer passes, those that have expired by the time of the question
    are left out: stores hold them for up to a minute, until they are erased. `calls` are those of
    the question, `known` the rows so far.
    """

    store: MemoryStore
    calls: DependencyCalls
    query: Query
    deadline: Deadline
    view: ResidentView | None = None
    known: dict[ItemId, Item] = field(default_factory=dict)
    elapsed_s: float = 0.0
    _read: set[ItemId] = field(default_factory=set)

    async def rows(self, items: Sequence[ItemId]) -> Mapping[ItemId, Item]:
        """Returns the rows that exist and have not expired.

        Raises:
            BudgetExhaustedError: The time ran out.
            StoreUnavailableError: The store cannot be reached, or did not answer before.
        """
        unread = [item for item in dict.fromkeys(items) if item not in self._read]
        if unread:
            started = time.perf_counter()
            if left := self._not_in_memory(unread):
                tenant = self.query.scope.tenant
                self._add(await self.in_time(partial(self.store.load, tenant, left)))
            self._read.update(unread)
            self.elapsed_s += time.perf_counter() - started
        return self.known

    def _not_in_memory(self, items: Sequence[ItemId]) -> Sequence[ItemId]:
        """Takes rows from memory; returns the items that may have rows in the store alone."""
        found = None
        if self.view is not None:
            found = self.view.rows(self.query.scope.tenant, items, self.query.token)
        if found is None:
            return items
        self._add(found.rows)
        return [] if found.complete else [item for item in items if item not in found.rows]

    def _add(self, rows: Mapping[ItemId, Item]) -> None:
        as_of = self.query.scope.as_of
        self.known |= {item: row for item, row in rows.items() if not is_expired(row, as_of)}

    def has_facts(self, until: Deadline) -> asyncio.Future[bool]:
        """Whether the tenant has facts, as far as is known: then legs search among them."""
        tenant, token = self.query.scope.tenant, self.query.token
        known = None if self.view is None else self.view.has_facts(tenant, token)
        if known is None:
            return asyncio.create_task(self._read_has_facts(until))
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        answer.set_result(known)
        return answer

    async def _read_has_facts(self, until: Deadline) -> bool:
        if not self.calls.asks(POSTGRES):
            return True
        try:
            # Without its answer nothing is lost, so it is no sign of whether PostgreSQL answers.
            async with asyncio.timeout(until.remaining()):
                return await self.store.has_facts(self.query.scope.tenant, until)
        except (TriviumError, TimeoutError):
            return True

    async def shown(self, access: AccessLog, items: Sequence[ItemId]) -> Mapping[ItemId, int]:
        """Returns how often each was shown; raises as `rows`."""
        if not items:
            return {}
        return await self.in_time(partial(access.shown_counts, self.query.scope.tenant, items))

    async def time_zone(self) -> tzinfo:
        """Returns the zone of the tenant; raises as `rows`."""
        tenant = self.query.scope.tenant
        if known := self.store.known_time_zone(tenant):
            return known
        return await self.in_time(partial(self.store.read_time_zone, tenant))

    async def in_time(self, read: Callable[[Deadline], Awaitable[Read]]) -> Read:
        """Reads behind the breaker of PostgreSQL; raises as `rows`."""
        try:
            return await self.calls.ask(POSTGRES, self.deadline, read)
        except TimeoutError as error:
            raise BudgetExhaustedError("reading the candidates") from error
        except BreakerOpenError as error:
            raise StoreUnavailableError(error.why) from error
