"""From the change log to what is derived from it: embeddings, and the graph.

Each projection is a loop of its own, so a slow one does not hold up the other. Whoever
holds the lead does the work; a standby takes over when it is lost. A
position is noted only after its changes are projected, so a crash repeats
work and loses none, and repeats are harmless. A row that cannot be projected
is set aside with the reason, and the rest goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, UnavailableError
from serving.ports import (
    Change,
    ChangeBatch,
    ChangeLog,
    Embedder,
    EmbeddingModel,
    EmbeddingTask,
    Graph,
    Projection,
    Vectors,
)

logger = logging.getLogger(__name__)

BATCH_CHANGES = 512
EMBEDDING_CHUNK = 64
"""Vectors are stored after so many, so that they can be found before the batch is done."""
POLL_S = 0.25
COMPACT_EVERY_S = 600.0
"""How often the leader drops what the log holds twice and every projection has taken."""
FIRST_BACK_OFF_S = 0.1
LAST_BACK_OFF_S = 5.0


class ProjectionWork(Protocol):
    """What one projection does with changes."""

    projection: Projection

    async def model(self) -> EmbeddingModel | None:
        """The model whose position counts, if there is one."""
        ...

    async def start(self) -> None:
        """Makes ready, once in each lead."""
        ...

    async def project(self, changes: Sequence[Change]) -> None:
        """Projects the rows of these changes as they are now."""
        ...


class EmbeddingWork:
    """Embeds what has no current vector of the model."""

    projection: Projection = "embedding"

    def __init__(self, log: ChangeLog, embedder: Embedder) -> None:
        self._log = log
        self._embedder = embedder

    async def model(self) -> EmbeddingModel:
        """The embedder's."""
        return await self._embedder.model()

    async def start(self) -> None:
        """Needs nothing."""

    async def project(self, changes: Sequence[Change]) -> None:
        """Embeds in chunks and stores each; a text that breaks the model is set aside."""
        model = await self.model()
        tasks = await self._log.embedding_tasks(changes, model)
        for start in range(0, len(tasks), EMBEDDING_CHUNK):
            chunk = tasks[start : start + EMBEDDING_CHUNK]
            await self._log.save_embeddings(model, await self._embed(chunk))

    async def _embed(self, tasks: Sequence[EmbeddingTask]) -> list[tuple[EmbeddingTask, Vectors]]:
        try:
            vectors = await self._embedder.embed_documents([task.text for task in tasks])
        except (UnavailableError, OverloadedError):
            raise
        except Exception as error:
            if len(tasks) > 1:
                return [pair for task in tasks for pair in await self._embed([task])]
            reason = type(error).__name__
            await self._log.set_aside(self.projection, await self.model(), tasks[0].change, reason)
            return []
        return list(zip(tasks, vectors, strict=True))


class GraphWork:
    """Brings entities, facts and mentions into the graph."""

    projection: Projection = "graph"

    def __init__(self, log: ChangeLog, graph: Graph) -> None:
        self._log = log
        self._graph = graph

    async def model(self) -> None:
        """None: the graph has one position."""

    async def start(self) -> None:
        """Sets up constraints and indexes."""
        await self._graph.prepare()

    async def project(self, changes: Sequence[Change]) -> None:
        """Applies the changes together; if that fails, each alone, to find which cannot be."""
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
            await self._log.set_aside(self.projection, None, changes[0], reason)


class Projector:
    """Runs one projection for as long as it lives.

    Args:
        log: The changes.
        work: What to do with them.
        in_use: Whether the work's model is the one in use; a model before that is only kept up.
    """

    def __init__(self, log: ChangeLog, work: ProjectionWork, *, in_use: bool = True) -> None:
        self._log = log
        self._work = work
        self._in_use = in_use
        self._drained = False  # whether the batch before was the last

    async def run(self) -> None:
        """Projects until it is cancelled; what it needs may come and go meanwhile."""
        back_off_s = FIRST_BACK_OFF_S
        while True:
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
                logger.warning(
                    "projection waits",
                    extra={"projection": self._work.projection, "reason": str(error)},
                )
            except Exception:
                logger.exception("projection failed", extra={"projection": self._work.projection})
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, LAST_BACK_OFF_S)

    async def step(self, model: EmbeddingModel | None) -> bool:
        """Projects the next batch; False if there was none."""
        projection = self._work.projection
        batch: ChangeBatch = await self._log.next_batch(projection, model, BATCH_CHANGES)
        if batch.changes:
            await self._work.project(batch.changes)
        complete = self._in_use and model is not None and self._is_complete_with(batch)
        self._drained = batch.last
        await self._log.advance(projection, model, batch.position, complete=complete)
        return bool(batch.changes)

    def _is_complete_with(self, batch: ChangeBatch) -> bool:
        """Whether after this batch only what was written during it can be missing.

        The last batch of a backlog takes long. What is written meanwhile is not in it, but
        the model before may have found it already, so it must be in the next. To wait for an
        empty batch would be too much, since writes may never cease.
        """
        return batch.last and (self._drained or not batch.changes)
