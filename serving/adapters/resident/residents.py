"""The tenants in memory: loaded when they are asked for, and kept up to date by the change log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Self

from serving.adapters.resident.tenant import ResidentTenant
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import TriviumError
from serving.domain.items.period import Period
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Walk, WordsMode, WordsSearch
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.index_engine import FeedLostError
from serving.ports.resident_feed import (
    LogPosition,
    ResidentFeed,
    TenantChanges,
    TenantTooLargeError,
)
from serving.ports.resident_view import KnownRows

logger = logging.getLogger(__name__)

MAX_SEGMENTS = 20_000
"""A tenant with more is not loaded: PostgreSQL and Neo4j read a part of its rows for a question."""

MAX_CHANGES = 128
"""After more changes of a tenant at once it is loaded again, in a thread."""

MAX_LOADING = 64
"""The tenants that may wait to be loaded; others are asked for again."""

REFUSED_S = 60.0
"""The pause before a tenant that is too large is loaded again."""

UNCHECKED_S = 5.0
"""Maximum age of answers without a look at the log: a process may end between a write and its
announcement, and a network may lose both."""

POLL_S = 1.0
"""Writers announce their changes; this finds those whose announcement was lost."""

FIRST_BACK_OFF_S = 0.1
LAST_BACK_OFF_S = 2.0


DEFAULT_WALK = Walk()


class TenantsInMemory:
    """A `ResidentView` over the tenants in memory, of at most `max_bytes` together.

    The stores are asked for what it leaves out: hidden rows, which are in PostgreSQL alone;
    searches that rank all rows by `ts_rank`; and walks that a profile chooses.

    It is an async context manager, and follows the log while it is open. The tenants that were
    asked for least recently give way. A tenant answers while all that this process knows to be
    written to it is applied, and the caller's write too.
    """

    def __init__(
        self,
        feed: ResidentFeed,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._feed = feed
        self._max_bytes = max_bytes
        self._clock = clock
        self._tenants: OrderedDict[TenantName, ResidentTenant] = OrderedDict()
        self._position: LogPosition | None = None
        self._applied = -1
        self._checked_at = 0.0
        self._reading = asyncio.Lock()
        self._moved = asyncio.Condition()
        self._loading: dict[TenantName, asyncio.Task[None]] = {}
        self._refused: dict[TenantName, float] = {}
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._following = asyncio.create_task(self._follow(), name="residents-follow")
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._loading.values(), *([self._following] if self._following else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._forget_all()

    # ------------------------------------------------------------ answering

    def find_by_words(self, query: Query, words: WordsSearch, depth: int) -> list[Candidate] | None:
        if words.mode is not WordsMode.BM25:
            return None
        tenant = self.current(query.scope.tenant, query.token)
        if tenant is None or tenant.has_hidden:
            return None
        return tenant.words.search(query, words, depth)

    def walk(self, query: Query, walk: Walk, depth: int, yields: Yields) -> list[Candidate] | None:
        if walk != DEFAULT_WALK or yields is not Yields.EVIDENCE or query.seeds:
            return None
        tenant = self.current(query.scope.tenant, query.token)
        return None if tenant is None else tenant.entities.walk(query, depth)

    def latest(self, query: Query, depth: int, *, earliest_first: bool) -> list[Candidate] | None:
        tenant = self.current(query.scope.tenant, query.token)
        if tenant is None:
            return None
        return tenant.times.latest(query.scope, depth, earliest_first=earliest_first)

    def mentioning(self, period: Period, query: Query, depth: int) -> list[Candidate] | None:
        tenant = self.current(query.scope.tenant, query.token)
        return None if tenant is None else tenant.times.mentioning(period, query.scope, depth)

    def rows(
        self, tenant: TenantName, items: Sequence[ItemId], token: ConsistencyToken | None
    ) -> KnownRows | None:
        found = self.current(tenant, token)
        if found is None:
            return None
        rows = {item: row for item in items if (row := found.get(item)) is not None}
        return KnownRows(rows, complete=not found.has_hidden)

    def has_facts(self, tenant: TenantName, token: ConsistencyToken | None) -> bool | None:
        found = self.current(tenant, token)
        if found is None or (found.has_hidden and not found.has_facts):
            return None
        return found.has_facts

    def current(
        self, tenant: TenantName, token: ConsistencyToken | None = None
    ) -> ResidentTenant | None:
        """Returns a tenant that may answer; else None, and it is loaded if it is not here."""
        found = self._tenants.get(tenant)
        if found is None:
            self._load(tenant)
            return None
        self._tenants.move_to_end(tenant)
        is_behind = self._applied < self._feed.heard(tenant)
        if is_behind or self._clock() - self._checked_at > UNCHECKED_S:
            return None
        return found if token is None or self._has_seen(token) else None

    async def load(self, tenant: TenantName, deadline: Deadline) -> bool:
        """Loads a tenant; False if it cannot be, or the deadline passes first."""
        if tenant not in self._tenants and (task := self._load(tenant)) is not None:
            await asyncio.wait((task,), timeout=deadline.remaining())
        return tenant in self._tenants

    async def caught_up(
        self, tenant: TenantName, token: ConsistencyToken, deadline: Deadline
    ) -> bool:
        """Waits until the tenant lacks no write; False if the deadline passes first."""

        def has_seen() -> bool:
            return tenant not in self._followed() or self._has_seen(token)

        try:
            async with asyncio.timeout(deadline.remaining()), self._moved:
                await self._moved.wait_for(has_seen)
        except TimeoutError:
            return has_seen()
        return True

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """Returns how many of the items are in memory."""
        found = self._tenants.get(tenant)
        return 0 if found is None else sum(found.get(item) is not None for item in set(items))

    @property
    def bytes(self) -> int:
        """The planned, not measured, memory of all tenants."""
        return sum(each.bytes for each in self._tenants.values())

    def _has_seen(self, token: ConsistencyToken) -> bool:
        if self._position is None:
            return False
        return self._position.epoch == token.epoch and token.seen_by(self._position.log)

    # ------------------------------------------------------------ loading

    def _load(self, tenant: TenantName) -> asyncio.Task[None] | None:
        """Begins to load a tenant, unless it is being loaded, or was too large."""
        task = self._loading.get(tenant)
        if task is not None:
            return task
        is_refused = self._clock() < self._refused.get(tenant, 0.0)
        if not tenant or is_refused or len(self._loading) >= MAX_LOADING:
            return None
        task = asyncio.create_task(self._read(tenant), name="residents-load")
        self._loading[tenant] = task
        task.add_done_callback(lambda _: self._loading.pop(tenant, None))
        return task

    async def _read(self, tenant: TenantName) -> None:
        try:
            async with self._reading:
                # What is committed from here on is among the changes that follow.
                if self._position is None:
                    self._applied, checked_at = self._feed.heard(), self._clock()
                    self._position, self._checked_at = await self._feed.position(), checked_at
                content = await self._feed.content(tenant, MAX_SEGMENTS)
                if content is None:
                    return
                made = await asyncio.to_thread(ResidentTenant, content)
                if made.bytes > self._max_bytes:
                    raise TenantTooLargeError
                self._tenants[tenant] = made
                self._evict()
            if self._feed.heard(tenant) > self._applied:
                # Announced while the tenant was not followed yet.
                await self.advance()
        except TenantTooLargeError:
            self._refuse(tenant)
        except (FeedLostError, TriviumError, TimeoutError) as error:
            logger.info("tenant not loaded", extra={"reason": type(error).__name__})
        except Exception:
            logger.exception("tenant not loaded")

    def _refuse(self, tenant: TenantName) -> None:
        now = self._clock()
        self._refused = {name: until for name, until in self._refused.items() if until > now}
        if len(self._refused) < MAX_LOADING:
            self._refused[tenant] = now + REFUSED_S

    def _evict(self) -> None:
        left = self.bytes
        while left > self._max_bytes:
            _, evicted = self._tenants.popitem(last=False)
            left -= evicted.bytes

    # ------------------------------------------------------------ following

    async def _follow(self) -> None:
        back_off_s = FIRST_BACK_OFF_S
        while True:
            try:
                if self._is_behind():
                    await self.advance()
                await self._feed.wait(POLL_S)
                back_off_s = FIRST_BACK_OFF_S
                continue
            except FeedLostError as error:
                logger.info("tenants dropped from memory", extra={"reason": str(error)})
                self._forget_all()
            except (TriviumError, TimeoutError) as error:
                logger.info("tenants not up to date", extra={"reason": type(error).__name__})
            except Exception:
                # A tenant may have half of a change.
                logger.exception("tenants dropped from memory")
                self._forget_all()
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, LAST_BACK_OFF_S)

    def _followed(self) -> set[TenantName]:
        return {*self._tenants, *self._loading}

    def _is_behind(self) -> bool:
        is_due = self._clock() - self._checked_at >= POLL_S
        return is_due or any(self._feed.heard(each) > self._applied for each in self._followed())

    async def advance(self) -> None:
        """Applies what was written since; done whenever a tenant in memory has changed."""
        async with self._reading:
            if not self._tenants:
                self._position = None
            if self._position is not None:
                heard, checked_at = self._feed.heard(), self._clock()
                delta = await self._feed.changes_since(self._position, self._tenants.keys())
                for tenant, changes in delta.changes.items():
                    self._change(tenant, changes)
                self._position = delta.position
                self._applied, self._checked_at = heard, checked_at
                self._evict()
        async with self._moved:
            self._moved.notify_all()

    def _change(self, tenant: TenantName, changes: TenantChanges) -> None:
        found = self._tenants[tenant]
        is_large = len(changes.rows) + len(changes.gone) > MAX_CHANGES
        if is_large or changes.text_search_config != found.text_search_config:
            del self._tenants[tenant]
            return
        found.apply(changes)
        if found.words.mostly_dead:
            del self._tenants[tenant]

    def _forget_all(self) -> None:
        self._tenants.clear()
        self._position = None
