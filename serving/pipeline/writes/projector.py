"""Projects the change log into embeddings and the graph.

Each projection has its own loop, so a slow one does not delay the other. The leader does the work;
a standby takes over when it is lost. A position is stored only after its changes were projected, so
a crash repeats work, which is harmless, and loses none. A row that cannot be projected is
dead-lettered with the reason, and the projection continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, UnavailableError
from serving.ports.change_log import Change, ChangeBatch, ChangeLog, EmbeddingTask, Projection
from serving.ports.embedding import Embedder, EmbeddingModel
from serving.ports.graph import Graph

logger = logging.getLogger(__name__)

BATCH_CHANGES = 512
EMBEDDING_CHUNK = 32
"""The number of texts after which vectors are stored, before the whole batch is done."""
GRAPH_CHUNK = 64
"""The number of changes that are applied to the graph together."""
EARLY_CHUNK = 16
"""A batch larger than a chunk is part of a backlog. After each chunk of it, this number of rows is
taken out of turn: a tenant that writes little waits for one chunk, not for the backlog."""
MAX_EARLY = 10_000
"""How many rows taken out of turn are remembered, so that they are not taken again."""
POLL_S = 1.0
"""Writers announce their changes; this finds those whose announcement was lost."""
COMPACT_EVERY_S = 600.0
"""How often the leader compacts the log."""
FIRST_BACK_OFF_S = 0.1
LAST_BACK_OFF_S = 5.0


class ProjectionWork(Protocol):
    """Projects changes of one kind."""

    projection: Projection

    async def model(self) -> EmbeddingModel | None:
        """Returns the model whose position is read, if the projection has one."""

    async def start(self) -> None:
        """Prepares the projection, once in each leadership."""

    async def project(self, changes: Sequence[Change]) -> None:
        """Projects the current rows of these changes."""


class EmbeddingWork:
    """Embeds rows that have no current vector of the model."""

    projection: Projection = "embedding"

    def __init__(self, log: ChangeLog, embedder: Embedder) -> None:
        self._log = log
        self._embedder = embedder

    async def model(self) -> EmbeddingModel:
        """Returns the embedder's model."""
        return await self._embedder.model()

    async def start(self) -> None:
        """Does nothing."""

    async def project(self, changes: Sequence[Change]) -> None:
        """Embeds and stores in chunks; a text on which the model fails is dead-lettered.

        Between the chunks of a backlog the newest rows of all tenants have their turn, since those
        who write little must not wait behind one who writes much.
        """
        model = await self.model()
        for start in range(0, len(changes), EMBEDDING_CHUNK):
            chunk = changes[start : start + EMBEDDING_CHUNK]
            if await self._embed_missing(chunk, model) and len(changes) > EMBEDDING_CHUNK:
                await self._embed_missing(
                    await self._log.newest_waiting(self.projection, model, EARLY_CHUNK), model
                )

    async def _embed_missing(self, changes: Sequence[Change], model: EmbeddingModel) -> bool:
        """Embeds the changed rows that lack a vector; returns whether there were any."""
        tasks = await self._log.embedding_tasks(changes, model)
        if tasks:
            await self._embed(tasks, model)
        return bool(tasks)

    async def _embed(self, tasks: Sequence[EmbeddingTask], model: EmbeddingModel) -> None:
        """Embeds and stores together; if that fails, one by one, to find the failing ones.

        Each is stored at once then, so that an embedder with a rate limit below their number makes
        progress all the same.
        """
        try:
            vectors = await self._embedder.embed_documents([task.text for task in tasks])
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
        await self._log.save_embeddings(model, list(zip(tasks, vectors, strict=True)))


class GraphWork:
    """Writes entities, facts and mentions to the graph."""

    projection: Projection = "graph"

    def __init__(self, log: ChangeLog, graph: Graph) -> None:
        self._log = log
        self._graph = graph
        self._early: set[int] = set()  # keys of the rows that were projected out of turn

    async def model(self) -> None:
        """Returns None: the graph has a single position."""

    async def start(self) -> None:
        """Creates constraints and indexes."""
        await self._graph.prepare()

    async def project(self, changes: Sequence[Change]) -> None:
        """Applies in chunks, and after each chunk of a backlog the newest rows of all tenants.

        What was applied out of turn is applied again in its turn, which changes nothing.
        """
        if len(changes) <= GRAPH_CHUNK or len(self._early) > MAX_EARLY:
            self._early.clear()
        for end in range(GRAPH_CHUNK, len(changes) + GRAPH_CHUNK, GRAPH_CHUNK):
            await self._apply(changes[end - GRAPH_CHUNK : end])
            if len(changes) > GRAPH_CHUNK:
                done = self._early | {change.key for change in changes[:end]}
                newest = await self._log.newest_waiting(self.projection, None, EARLY_CHUNK, done)
                await self._apply(newest)
                self._early.update(change.key for change in newest)

    async def _apply(self, changes: Sequence[Change]) -> None:
        """Applies the changes together; if that fails, one by one, to find the failing ones."""
        try:
            await self._graph.apply(await self._log.graph_changes(changes))
        except UnavailableError:
            raise
        except Exception as error:
            if len(changes) > 1:
                for change in changes:
                    await self._apply([change])
                return
            reason = type(error).__name__
            await self._log.dead_letter(self.projection, None, changes[0], reason)


class Projector:
    """Runs one projection.

    Args:
        log: The change log.
        work: Projects the changes.
        in_use: Whether the work's model is the current one; a previous model never completes.
    """

    def __init__(self, log: ChangeLog, work: ProjectionWork, *, in_use: bool = True) -> None:
        self._log = log
        self._work = work
        self._in_use = in_use
        self._drained = False  # whether the previous batch was the last

    async def run(self) -> None:
        """Projects until it is cancelled; retries while a dependency is down."""
        back_off_s = FIRST_BACK_OFF_S
        while True:
            asked_to_wait_s = 0.0
            try:
                model = await self._work.model()
                async with self._log.leadership(self._work.projection, model):
                    await self._work.start()
                    self._drained = False
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
        """Projects the next batch; returns False if it was empty."""
        projection = self._work.projection
        batch: ChangeBatch = await self._log.next_batch(projection, model, BATCH_CHANGES)
        if batch.changes:
            await self._work.project(batch.changes)
        complete = self._in_use and model is not None and self._is_complete_with(batch)
        self._drained = batch.last
        await self._log.advance(projection, model, batch.position, complete=complete)
        return bool(batch.changes)

    def _is_complete_with(self, batch: ChangeBatch) -> bool:
        """Returns whether only writes made during this batch can be missing after it.

        The last batch of a backlog takes long. Writes made meanwhile are not in it, but requests
        may already find them by the previous model, so one more batch has to follow. Waiting for an
        empty batch would be too strict, since writes may never cease.
        """
        return batch.last and (self._drained or not batch.changes)
