"""Writes snapshots of an index periodically, so that a restart need not read all rows again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext

from serving.domain.consistency import ConsistencyToken
from serving.pipeline.inference.device_watch import Watch
from serving.ports.embedding import EmbeddingModel
from serving.ports.index_engine import FeedPosition, IndexEngine, IndexSnapshots, SnapshotLabel

logger = logging.getLogger(__name__)

SAVE_EVERY_S = 600.0


class SnapshotWriter:
    """Writes a snapshot when the last one is old and the rows have changed since. Synchronous.

    Args:
        snapshots: Where they are stored.
        every_s: The least time between two.
        watch: Entered around each use of the engine's device.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        snapshots: IndexSnapshots,
        *,
        every_s: float = SAVE_EVERY_S,
        watch: Watch = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._snapshots = snapshots
        self._every_s = every_s
        self._watch = watch
        self._clock = clock
        self._tried_at = clock()
        self._saved: tuple[FeedPosition, int] | None = None

    def restore(self, engine: IndexEngine, model: EmbeddingModel) -> SnapshotLabel | None:
        """Fills an empty engine from the newest intact snapshot; None if there is none."""
        with self._watch():
            return self._snapshots.restore(engine, model)

    def delete_outdated(self, write: ConsistencyToken) -> None:
        """Deletes the snapshots that do not include the write.

        Raises:
            OSError: Some are left.
        """
        self._snapshots.delete_outdated(write)

    def outdated_count(self, write: ConsistencyToken) -> int:
        """Returns how many snapshots do not include the write."""
        return self._snapshots.outdated_count(write)

    def save_if_due(self, engine: IndexEngine, label: SnapshotLabel) -> None:
        """Writes a snapshot if the last attempt is long enough ago."""
        if self._clock() >= self._tried_at + self._every_s:
            self.save(engine, label)

    def save(self, engine: IndexEngine, label: SnapshotLabel) -> None:
        """Writes a snapshot unless it would equal the last one; a failure is logged."""
        self._tried_at = self._clock()
        if (label.position, label.epoch) == self._saved:
            return
        try:
            with self._watch():
                self._snapshots.save(engine, label)
        except Exception as error:
            # The disk may be full or a library may fail; answering needs neither.
            logger.warning("snapshot write failed", extra={"reason": str(error)})
            return
        self._saved = (label.position, label.epoch)
        logger.info("snapshot written", extra={"vectors": engine.vector_count})
