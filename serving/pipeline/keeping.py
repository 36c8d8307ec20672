"""Writing snapshots of an index now and then, so that its next start need not begin anew."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from serving.ports import FeedPosition, IndexEngine, IndexSnapshots, SnapshotLabel

logger = logging.getLogger(__name__)

SAVE_EVERY_S = 600.0


class Keeper:
    """Writes a snapshot when the last one is old and something has changed since. Synchronous.

    Args:
        snapshots: Where to.
        every_s: How old a snapshot may be.
        clock: Tells seconds.
    """

    def __init__(
        self,
        snapshots: IndexSnapshots,
        *,
        every_s: float = SAVE_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.snapshots = snapshots
        self._every_s = every_s
        self._clock = clock
        self._tried_at = clock()
        self._saved: tuple[FeedPosition, int] | None = None

    def save_if_due(self, engine: IndexEngine, label: SnapshotLabel) -> None:
        """Writes a snapshot if it is time to."""
        if self._clock() >= self._tried_at + self._every_s:
            self.save(engine, label)

    def save(self, engine: IndexEngine, label: SnapshotLabel) -> None:
        """Writes a snapshot unless it would be the last one again; a failure is logged."""
        self._tried_at = self._clock()
        if (label.position, label.epoch) == self._saved:
            return
        try:
            self.snapshots.save(engine, label)
        except Exception as error:
            # A disk may be full, a library may fail; the index needs neither to answer.
            logger.warning("index wrote no snapshot", extra={"reason": str(error)})
            return
        self._saved = (label.position, label.epoch)
        logger.info("index wrote a snapshot", extra={"vectors": engine.vector_count})
