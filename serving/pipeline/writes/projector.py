"""Projects the change log into embeddings and the graph.

Each projection has its own loop, so a slow one does not delay the other. The leader does the work;
a standby takes over when it is lost. A position is stored only after its changes were projected, so
a crash repeats work, which is harmless, and loses none. A row that cannot be projected is
dead-lettered with the reason, and the projection continues. Of a backlog each tenant has its turn
in every chunk (`backlog.py`).
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence

from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, UnavailableError
from serving.pipeline.writes.backlog import Backlog
from serving.ports.change_log import Change, ChangeLog, EmbeddingTask, Projection
from serving.ports.embedding import Embedder, EmbeddingModel
from serving.ports.graph import Graph

logger = logging.getLogger(__name__)

BATCH_CHANGES = 512
"""Changes per read of the log."""
MAX_BATCHES = 8
"""Reads of the log before a chunk, so that a step and a retry cost the same at any length of the
backlog."""
MAX_WAITING = 100_000
"""Maximum number of changes in memory, of about 300 bytes each. Later writes wait for them, whoever
wrote them."""
EMBEDDING_CHUNK = 32
"""Texts embedded and stored together, and changes looked at for them."""
WITH_VECTORS_CHUNK = 128
"""Changes looked at together after some that all had vectors."""
GRAPH_CHUNK = 256
"""Changes applied to the graph together: with 64, most of the time is that of the transaction."""
POLL_S = 1.0
"""Writers announce their changes; this finds those whose announcement was lost."""
COMPACT_EVERY_S = 600.0
"""The period of the leader's compaction of the log."""
FIRST_BACK_OFF_S = 0.1
LAST_BACK_OFF_S = 5.0


class ProjectionWork(ABC):
    """Projects changes of one kind."""

    projection: Projection
    chunk: int
    """The number of changes projected together; others wait for them."""

    async def model(self) -> EmbeddingModel | None:
        """Returns the model whose position is read; None if the projection has a single one."""
        return None

    async def start(self) -> None:
        """Prepares the projection, once in each leadership."""
        return

    @abstractmethod
    async def project(self, changes: Sequence[Change]) -> None:
        """Projects the current rows of these changes."""


class EmbeddingWork(ProjectionWork):
    """Embeds rows that have no current vector of the model."""

    projection: Projection = "embedding"

    def __init__(self, log: ChangeLog, embedder: Embedder) -> None:
        self.chunk = EMBEDDING_CHUNK
        self._log = log
        self._embedder = embedder

    async def model(self) -> EmbeddingModel:
        return await self._embedder.model()

    async def project(self, changes: Sequence[Change]) -> None:
        """Embeds what lacks a vector; a text on which the model fails is dead-lettered."""
        model = await self.model()
        tasks = await self._log.embedding_tasks(changes, model)
        self.chunk = EMBEDDING_CHUNK if tasks else WITH_VECTORS_CHUNK
        for start in range(0, len(tasks), EMBEDDING_CHUNK):
            await self._embed(tasks[start : start + EMBEDDING_CHUNK], model)

    async def _embed(self, tasks: Sequence[EmbeddingTask], model: EmbeddingModel) -> None:
        """Embeds and stores together; if that fails, one by one, to find the failing ones.

        Each is stored at once then, so that an embedder with a rate limit below their number makes
        progress all the same.
        """
        try:
            made = await self._embedder.embed_documents([task.text for task in tasks])
        except (UnavailableError, OverloadedError):
            raise
        except Exception as error:
            if len(tasks) > 1:
                for task in tasks:
                    await self._embed([task], model)
                return
            reason = type(error).__name__
            await self._log.dead_letter(self.projection, model, tasks[0].change, reason)
            return
        await self._log.save_embeddings(model, list(zip(tasks, made, strict=True)))


class GraphWork(ProjectionWork):
    """Writes entities, facts and mentions to the graph."""

    projection: Projection = "graph"
    chunk = GRAPH_CHUNK

    def __init__(self, log: ChangeLog, graph: Graph) -> None:
        self._log = log
        self._graph = graph

    async def start(self) -> None:
        await self._graph.prepare()

    async def project(self, changes: Sequence[Change]) -> None:
        """Applies the changes together; if that fails, one by one, to find the failing ones."""
        try:
            await self._graph.apply(await self._log.graph_changes(changes))
        except UnavailableError:
            raise
        except Exception as error:
            if len(changes) > 1:
                for change in changes:
                    await self.project([change])
                return
            reason = type(error).__name__
            await self._log.dead_letter(self.projection, None, changes[0], reason)


class Projector:
    """Runs one projection. A model that is not `in_use`, to answer by, never completes."""

    def __init__(self, log: ChangeLog, work: ProjectionWork, *, in_use: bool = True) -> None:
        self._log = log
        self._work = work
        self._in_use = in_use
        self._start_over()

    async def run(self) -> None:
        """Projects until it is cancelled; retries while a dependency is down."""
        back_off_s = FIRST_BACK_OFF_S
        while True:
            asked_to_wait_s = 0.0
            try:
                model = await self._work.model()
                async with self._log.leadership(self._work.projection, model):
                    await self._work.start()
                    self._start_over()
                    compact_at = Deadline.after(COMPACT_EVERY_S)
                    while True:
                        moved = await self.step(model)
                        back_off_s = FIRST_BACK_OFF_S
                        if compact_at.passed:
                            await self._log.compact()
                            compact_at = Deadline.after(COMPACT_EVERY_S)
                        if not moved:
                            await self._log.wait(POLL_S)
            except (UnavailableError, OverloadedError, TimeoutError) as error:
                if isinstance(error, OverloadedError):
                    asked_to_wait_s = error.retry_after_s
                logger.warning(
                    "projection deferred",
                    extra={"projection": self._work.projection, "reason": str(error)},
                )
            except Exception:
                logger.exception("projection failed", extra={"projection": self._work.projection})
            await asyncio.sleep(max(back_off_s, asked_to_wait_s))
            back_off_s = min(2 * back_off_s, LAST_BACK_OFF_S)

    async def step(self, model: EmbeddingModel | None) -> bool:
        """Reads what is new, and projects the next chunk; returns False if nothing waited.

        After a failure it begins again at the stored position.
        """
        projection = self._work.projection
        try:
            ended = await self._read(model)
            chunk = self._backlog.take(self._work.chunk)
            if chunk:
                await self._work.project(chunk)
            position = self._backlog.finish()
            ended = ended and not self._backlog
            complete = self._in_use and model is not None and self._is_complete(ended, chunk)
            self._drained = ended
            if position is not None:
                await self._log.advance(projection, model, position, complete=complete)
        except BaseException:
            self._start_over()
            raise
        return bool(chunk)

    def _start_over(self) -> None:
        self._backlog = Backlog()
        self._drained = False  # whether the previous step ended with nothing left

    async def _read(self, model: EmbeddingModel | None) -> bool:
        """Reads on; returns whether the end of the log is reached."""
        for _ in range(MAX_BATCHES):
            if len(self._backlog) >= MAX_WAITING:
                break
            batch = await self._log.next_batch(
                self._work.projection, model, BATCH_CHANGES, self._backlog.read_up_to
            )
            self._backlog.add(batch)
            if batch.last:
                return True
        return False

    def _is_complete(self, ended: bool, chunk: Sequence[Change]) -> bool:
        """Returns whether only writes made during this step can be missing after it.

        The first step after a backlog may take long. Writes made meanwhile are not in it, but
        requests may already find them by another model, so one more step has to follow.
        Waiting for an empty one would be too strict, since writes may never cease.
        """
        return ended and (self._drained or not chunk)
