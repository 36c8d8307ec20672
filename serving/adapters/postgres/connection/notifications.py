"""Cross-process wake-ups by LISTEN and NOTIFY.

A NOTIFY inside a writing transaction takes a cluster-wide lock at commit (measured: 8 writers
dropped from 3,900 to 2,300 commits per second). It is therefore sent after the commit, at most one
per `PAUSE_S`. A notification may be lost: callers wait with a timeout and then poll.

The payload is the tenant that has changed; an empty one stands for all tenants.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from enum import StrEnum
from weakref import WeakKeyDictionary

import psycopg

from serving.adapters.postgres.connection.pool import Database
from serving.domain.errors import TriviumError
from serving.domain.items.records import TenantName

logger = logging.getLogger(__name__)

PAUSE_S = 0.02
"""The shortest interval between two notifications of one process."""

MAX_TENANTS = 10_000
"""The tenants whose last change is remembered; beyond it, all have changed."""

MAX_NAMED = 100
"""The tenants that are named at once; of more, all have changed."""

ALL = TenantName("")

FIRST_BACK_OFF_S = 0.1
LAST_BACK_OFF_S = 2.0


class Channel(StrEnum):
    """The events that are announced."""

    CHANGES = "trivium_changes"
    """The change log has grown."""
    PROGRESS = "trivium_progress"
    """A projection has advanced."""


class Notifications:
    """The process's listening connection and its batching sender."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._received = dict.fromkeys(Channel, 0)
        self._changes = 0
        self._last_change: dict[TenantName, int] = {}
        self._condition = asyncio.Condition()
        self._pending: set[tuple[Channel, TenantName]] = set()
        self._sender: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Starts listening; returns at once."""
        self._listener = asyncio.create_task(self._listen(), name="postgres-listener")

    async def close(self) -> None:
        """Sends pending notifications and closes the connection."""
        if self._sender is not None:
            await self._sender
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener

    def announce(self, channel: Channel, tenant: TenantName = ALL) -> None:
        """Schedules a notification to all processes; returns at once."""
        if channel is Channel.CHANGES:
            self._changed(tenant)
        self._pending.add((channel, tenant))
        if len(self._pending) > MAX_NAMED:
            self._pending = {(each, ALL) for each, _ in self._pending}
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send(), name="postgres-notifier")

    def received(self, channels: Iterable[Channel]) -> int:
        """The number of notifications so far. Read it before polling, for `wait_beyond`."""
        return sum(self._received[channel] for channel in channels)

    def heard(self, tenant: TenantName | None = None) -> int:
        """The number of the last change announced: to a tenant, or to any.

        Those of this process count when they are announced, and when they are received.
        """
        if tenant is None:
            return self._changes
        return max(self._last_change.get(tenant, 0), self._last_change.get(ALL, 0))

    async def wait_beyond(
        self, received: int, channels: Iterable[Channel], timeout_s: float
    ) -> None:
        """Returns once more than `received` notifications have arrived, or after the timeout."""
        channels = tuple(channels)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._condition:
                await self._condition.wait_for(lambda: self.received(channels) > received)

    async def _send(self) -> None:
        while self._pending:
            channels, tenants = zip(*self._pending, strict=True)
            self._pending.clear()
            try:
                async with self._database.work() as connection:
                    await connection.execute(
                        "SELECT pg_notify(channel, tenant) "
                        "FROM unnest(%s::text[], %s::text[]) AS pending (channel, tenant)",
                        [list(channels), list(tenants)],
                    )
            except (TriviumError, TimeoutError) as error:
                logger.debug("change notification not sent", extra={"reason": str(error)})
            await asyncio.sleep(PAUSE_S)

    async def _listen(self) -> None:
        back_off_s = FIRST_BACK_OFF_S
        while True:
            is_listening = False
            try:
                async with await self._database.connect() as connection:
                    for channel in Channel:
                        await connection.execute(f"LISTEN {channel}")
                    is_listening = True
                    await self._count(Channel)  # covers events missed while disconnected
                    back_off_s = FIRST_BACK_OFF_S
                    async for notification in connection.notifies():
                        await self._count(
                            [Channel(notification.channel)], TenantName(notification.payload)
                        )
            except (TriviumError, TimeoutError, psycopg.Error) as error:
                logger.info(
                    "change notifications unavailable", extra={"reason": type(error).__name__}
                )
            if is_listening:
                await self._count(Channel)  # what is announced from now on is missed
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, LAST_BACK_OFF_S)

    async def _count(self, channels: Iterable[Channel], tenant: TenantName = ALL) -> None:
        async with self._condition:
            for channel in channels:
                self._received[channel] += 1
                if channel is Channel.CHANGES:
                    self._changed(tenant)
            self._condition.notify_all()

    def _changed(self, tenant: TenantName) -> None:
        self._changes += 1
        if len(self._last_change) >= MAX_TENANTS:
            self._last_change = {ALL: self._changes}
        self._last_change[tenant] = self._changes


class Waiter:
    """Waits for new notifications, tracked per task."""

    def __init__(self, notifications: Notifications, *channels: Channel) -> None:
        self._notifications = notifications
        self._channels = channels
        self._seen: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()

    async def wait(self, timeout_s: float) -> None:
        """Returns once a notification has arrived since this task's last wait, or on timeout.

        Notifications that arrive while the task is busy count: its next wait returns at once.
        """
        task = asyncio.current_task()
        assert task is not None, "waited outside a task; this is a bug"
        await self._notifications.wait_beyond(self._seen.get(task, 0), self._channels, timeout_s)
        self._seen[task] = self._notifications.received(self._channels)
