"""Holds writes back while the projections are far behind, so that the change log stays bounded."""

from __future__ import annotations

import asyncio
import logging
import math
import time

from serving.domain.errors import OverloadedError, TriviumError
from serving.ports.change_log import ChangeLog

logger = logging.getLogger(__name__)

MAX_PENDING = 1_000_000
"""Changes that wait for a projection, of about 300 bytes each. The graph may be lost for hours
before writes are."""

READ_EVERY_S = 5.0
"""The period of counting, and the delay after which a refused writer should return."""


class Backpressure:
    """Whether `MAX_PENDING` changes or more wait for a projection; counts none without a write."""

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._read_at = -math.inf
        self._is_full = False

    async def admit(self, *, patient: bool) -> None:
        """Returns when a write may go on; a `patient` one, as of a stream, waits for that.

        Raises:
            OverloadedError: The projections are too far behind, and the write is not patient.
        """
        while await self._full():
            if not patient:
                raise OverloadedError("the backlog of the projections", READ_EVERY_S)
            await asyncio.sleep(READ_EVERY_S)

    async def _full(self) -> bool:
        now = time.monotonic()
        if now - self._read_at >= READ_EVERY_S:
            self._read_at = now  # before it is read: other writers go by what is known
            was_full = self._is_full
            try:
                self._is_full = await self._log.has_pending(MAX_PENDING)
            except TriviumError:
                return was_full  # the write itself will meet what is lost
            if self._is_full and not was_full:
                logger.warning("writes held back", extra={"pending": MAX_PENDING})
        return self._is_full
