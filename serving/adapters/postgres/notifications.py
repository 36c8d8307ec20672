"""Waking who waits for changes, between processes, by LISTEN and NOTIFY.

A NOTIFY within the transaction that writes would take a lock of the whole cluster at
its commit (measured: 8 writers fell from 3,900 to 2,300 commits a second), so it is
sent afterwards, and one stands for all of a short while. It can get lost; whoever
waits does so with a timeout, and looks for itself then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from enum import StrEnum
from weakref import WeakKeyDictionary

import psycopg

from serving.adapters.postgres.pool import Database
from serving.domain.errors import TriviumError

logger = logging.getLogger(__name__)

PAUSE_S = 0.02
"""At least this long passes between two notifications of one process."""
FIRST_BACK_OFF_S = 0.1
LAST_BACK_OFF_S = 2.0


class Channel(StrEnum):
    """What may have happened."""

    CHANGES = "trivium_changes"
    """The change log has grown."""
    PROGRESS = "trivium_progress"
    """A projection has moved on."""


class Notifications:
    """One listening connection for the process, and a sender that gathers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._heard = dict.fromkeys(Channel, 0)
        self._condition = asyncio.Condition()
        self._pending: set[Channel] = set()
        self._sender: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Starts to listen, and returns at once."""
        self._listener = asyncio.create_task(self._listen(), name="postgres-listener")

    async def close(self) -> None:
        """Sends what is pending, and ends the connection."""
        if self._sender is not None:
            await self._sender
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener

    def announce(self, channel: Channel) -> None:
        """Tells all processes, soon; returns at once."""
        self._pending.add(channel)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send(), name="postgres-notifier")

    def heard(self, channels: Iterable[Channel]) -> int:
        """How much was heard so far: take it before looking, and give it to `wait_beyond`."""
        return sum(self._heard[channel] for channel in channels)

    async def wait_beyond(self, heard: int, channels: Iterable[Channel], timeout_s: float) -> None:
        """Returns when more than `heard` was heard, or after the timeout."""
        channels = tuple(channels)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._condition:
                await self._condition.wait_for(lambda: self.heard(channels) > heard)

    async def _send(self) -> None:
        while self._pending:
            channels = sorted(self._pending)
            self._pending.clear()
            try:
                async with self._database.work() as connection:
                    await connection.execute(
                        "SELECT pg_notify(channel, '') FROM unnest(%s::text[]) AS channel",
                        [channels],
                    )
            except (TriviumError, TimeoutError) as error:
                logger.debug("notification lost", extra={"reason": str(error)})
            await asyncio.sleep(PAUSE_S)

    async def _listen(self) -> None:
        back_off_s = FIRST_BACK_OFF_S
        while True:
            try:
                async with await self._database.connect() as connection:
                    for channel in Channel:
                        await connection.execute(f"LISTEN {channel}")
                    await self._hear(Channel)  # something may have happened meanwhile
                    back_off_s = FIRST_BACK_OFF_S
                    async for notification in connection.notifies():
                        await self._hear([Channel(notification.channel)])
            except (TriviumError, TimeoutError, psycopg.Error) as error:
                logger.info("not listening for changes", extra={"reason": type(error).__name__})
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, LAST_BACK_OFF_S)

    async def _hear(self, channels: Iterable[Channel]) -> None:
        async with self._condition:
            for channel in channels:
                self._heard[channel] += 1
            self._condition.notify_all()


class Waiter:
    """Waits for what was not seen yet, for each task apart."""

    def __init__(self, notifications: Notifications, *channels: Channel) -> None:
        self._notifications = notifications
        self._channels = channels
        self._seen: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()

    async def wait(self, timeout_s: float) -> None:
        """Returns when something was heard since this task last waited, or after the timeout.

        What is heard while the task is busy is not lost: its next wait returns at once.
        """
        task = asyncio.current_task()
        assert task is not None, "waited outside of a task; this is a bug"
        seen = self._seen.get(task, 0)
        await self._notifications.wait_beyond(seen, self._channels, timeout_s)
        self._seen[task] = self._notifications.heard(self._channels)
