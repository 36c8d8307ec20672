"""A vector index that follows PostgreSQL: filled from a snapshot, then kept up by the log.

Every replica follows on its own. While PostgreSQL is away it answers from what it has, and
reads that carry a newer token are told it is stale. When the log no longer reaches
back to its position, it starts again from a snapshot, with the next epoch. An engine that puts
its rows into another shape begins an epoch too; none is given twice in the life of a process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import NotReadyError, UnavailableError
from serving.domain.records import ItemId, TenantName
from serving.pipeline.keeping import Keeper
from serving.pipeline.maintenance import MAINTAIN_EVERY_S, Maintenance
from serving.ports import (
    EmbeddingModel,
    FeedLostError,
    FeedPosition,
    IndexAnswer,
    IndexEngine,
    IndexFeed,
    IndexRow,
    IndexStatus,
    IndexTier,
    Neighbours,
    SnapshotLabel,
    UnsoundRowsError,
    VectorLike,
    WantedNeighbours,
)

logger = logging.getLogger(__name__)

INLINE_ROWS = 20_000
"""Scans beyond it go to a thread; this many rows of 384 take 1 ms."""

INLINE_CHANGES = 32
"""Changes beyond it are applied in a thread; a row takes about 0.02 ms."""

ANSWER_RESERVE_S = 0.02
"""What a search that waits for a write leaves of its time for the search itself."""

SHARE_EVERY_S = 1.0
"""The share of embedded rows is counted no more often, since it reads all of them."""

POLL_S = 0.5
FIRST_BACK_OFF_S = 0.1
LAST_BACK_OFF_S = 5.0

STOP_S = 5.0
"""So long a stop waits for maintenance, which ends between two blocks of rows."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """Rows to search, where in the log they are, and whether they are more than a few of all.

    `first_epoch` is that of the engine's generation 0.
    """

    engine: IndexEngine
    first_epoch: int
    position: FeedPosition
    complete: bool


class TailedIndex:
    """A `VectorIndex` over an `IndexEngine` that it keeps as the `IndexFeed` says.

    Use it as `async with`: it follows the feed between `start` and `stop`, and answers as
    soon as it is filled.

    After a change of the model, rows of the new one are few at first. So the index
    is not ready before the embeddings of `model` were complete once; until then searches
    raise `NotReadyError` with the progress. What is missing later is only the latest
    writes, which a token tells of.

    Args:
        feed: The source of rows.
        model: Whose vectors it holds; questions must be of the same.
        make_engine: Makes an empty engine.
        poll_s: How long it waits for the feed to wake it, at most.
        back_off_s: The first pause after a failure; doubled up to `LAST_BACK_OFF_S`.
        maintain_every_s: How long the engine is left alone between two rounds of maintenance.
        keeper: Writes what it holds to where the next start begins; None begins anew each time.
    """

    def __init__(
        self,
        feed: IndexFeed,
        model: EmbeddingModel,
        make_engine: Callable[[], IndexEngine],
        *,
        poll_s: float = POLL_S,
        back_off_s: float = FIRST_BACK_OFF_S,
        maintain_every_s: float = MAINTAIN_EVERY_S,
        keeper: Keeper | None = None,
    ) -> None:
        self._keeper = keeper
        self._feed = feed
        self._model = model
        self._make_engine = make_engine
        self._poll_s = poll_s
        self._first_back_off_s = back_off_s
        self._maintain_every_s = maintain_every_s
        self._maintenance: Maintenance | None = None
        self._filled: _Filled | None = None
        self._share_due_at = 0.0
        self._reason = "starting"
        self._epoch = 1
        self._moved = asyncio.Condition()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="vector-index")
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begins to follow; returns at once."""
        self._following = asyncio.create_task(self._follow(), name="index-follow")

    async def stop(self) -> None:
        """Stops following and answering."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        filled, self._filled, self._reason = self._filled, None, "stopped"
        if self._maintenance is not None:
            self._maintenance.end()
            await asyncio.to_thread(self._maintenance.join, STOP_S)
        if filled is not None and self._keeper is not None:
            await asyncio.to_thread(self._keeper.save, filled.engine, self._label(filled))
        await asyncio.to_thread(self._threads.shutdown)

    # ------------------------------------------------------------ answering

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours of a vector; scores are cosines.

        Waits for the token until shortly before the deadline, then answers all the
        same with `stale` set.

        Raises:
            ValueError: `vector` has another dimension than the index.
            NotReadyError: The index is being filled, or its vectors are being made.
        """
        self._require_ready()
        stale = False
        if wanted.token is not None:
            reserve_s = min(ANSWER_RESERVE_S, deadline.remaining() / 2)
            stale = not await self.caught_up(wanted.token, deadline.earlier_by(reserve_s))
        filled = self._require_ready()
        async with asyncio.timeout(deadline.remaining()):
            found = await self._search(filled.engine, vector, wanted)
        epoch = filled.first_epoch + found.generation
        return IndexAnswer(found.candidates, epoch, stale, found.evidence)

    async def _search(
        self, engine: IndexEngine, vector: VectorLike, wanted: WantedNeighbours
    ) -> Neighbours:
        if engine.scan_size(wanted.scope.tenant, wanted.kind) <= INLINE_ROWS:
            return engine.search(vector, wanted)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, engine.search, vector, wanted)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it still holds.

        Raises:
            NotReadyError: The index is being filled, so it cannot tell.
        """
        if self._filled is None:
            raise NotReadyError("index", self._reason)
        return self._filled.engine.count(tenant, items)

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until the index has seen the write; False if the deadline passes first.

        A token of another epoch is of another life of the database, and not waited for.
        """
        if self._filled is not None and self._filled.position.epoch != token.epoch:
            return False
        return await self._wait_for(lambda: self._has_seen(token), deadline)

    async def ready(self, deadline: Deadline) -> bool:
        """Waits until searches are answered; False if the deadline passes first."""
        return await self._wait_for(self._is_ready, deadline)

    async def _wait_for(self, condition: Callable[[], bool], deadline: Deadline) -> bool:
        try:
            async with asyncio.timeout(deadline.remaining()), self._moved:
                await self._moved.wait_for(condition)
        except TimeoutError:
            return condition()
        return True

    def _is_ready(self) -> bool:
        return self._filled is not None and self._filled.complete

    def _has_seen(self, token: ConsistencyToken) -> bool:
        if self._filled is None:
            return False
        position = self._filled.position
        return position.epoch == token.epoch and token.seen_by(position.embedded)

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """Its state, with how the rows of a tenant are searched if one is named."""
        filled = self._filled
        if filled is None:
            return IndexStatus(ready=False, vector_count=0, epoch=self._epoch, reason=self._reason)
        engine = filled.engine
        return IndexStatus(
            ready=filled.complete,
            vector_count=engine.vector_count,
            epoch=filled.first_epoch + engine.generation,
            reason="" if filled.complete else self._reason,
            incomplete=not filled.complete,
            tiers=tuple(engine.tiers(tenant)) if tenant is not None else (),
        )

    def tiers(self) -> list[IndexTier]:
        """How rows are searched, those of all tenants; none before it is filled."""
        return self._filled.engine.tiers() if self._filled is not None else []

    async def lag_s(self) -> float | None:
        """The age in seconds of the oldest change it has not taken; None before it is filled.

        Raises:
            UnavailableError: The feed, which alone can tell, cannot be reached.
        """
        if self._filled is None:
            return None
        return await self._feed.lag_s(self._filled.position)

    def _require_ready(self) -> _Filled:
        if self._filled is None or not self._filled.complete:
            raise NotReadyError("index", self._reason)
        return self._filled

    # ------------------------------------------------------------ following

    async def _follow(self) -> None:
        back_off_s = self._first_back_off_s
        while True:
            try:
                if self._filled is None:
                    await self._fill()
                else:
                    await self._advance(self._filled)
                    await self._feed.wait(self._poll_s)
                back_off_s = self._first_back_off_s
                continue
            except FeedLostError:
                logger.warning("index starts again: the log is gone", extra={"epoch": self._epoch})
                self._start_again("rebuilding")
            except (UnavailableError, TimeoutError) as error:
                logger.warning("index waits for its feed", extra={"reason": type(error).__name__})
            except Exception:
                # What it holds may be half of a change; only a new start is sound.
                logger.exception("index failed")
                self._start_again("failed, trying again")
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, LAST_BACK_OFF_S)

    def _start_again(self, reason: str) -> None:
        if self._maintenance is not None:
            self._maintenance.end()
        if self._filled is not None:
            # Closed, it begins no further epoch, though answers may still be under way.
            self._epoch = self._filled.first_epoch + self._filled.engine.generation
        self._filled = None
        self._reason = reason
        self._epoch += 1

    async def _fill(self) -> None:
        engine, position = await self._restored() or await self._bootstrapped()
        self._share_due_at = 0.0
        await self._move_to(_Filled(engine, self._epoch, position, position.complete))
        self._maintenance = Maintenance(
            engine, lambda: self._save_if_due(engine), every_s=self._maintain_every_s
        )
        self._maintenance.start()
        logger.info(
            "index filled",
            extra={
                "vectors": engine.vector_count,
                "epoch": self._epoch,
                "planned_bytes": sum(tier.memory_bytes for tier in engine.tiers()),
            },
        )

    async def _bootstrapped(self) -> tuple[IndexEngine, FeedPosition]:
        """An engine with all rows of now."""
        engine = self._make_engine()
        async with self._feed.bootstrap(self._model) as (position, batches):
            with _rows_kept_from_the_collector():
                async for rows in batches:
                    await self._apply(engine, rows, ())
        return engine, position

    async def _restored(self) -> tuple[IndexEngine, FeedPosition] | None:
        """An engine with what the last snapshot has and the log since; None without either.

        It answers only then: what was erased since must not be found again.
        """
        if self._keeper is None:
            return None
        engine, loop = self._make_engine(), asyncio.get_running_loop()
        label = await loop.run_in_executor(
            self._threads, self._keeper.snapshots.restore, engine, self._model
        )
        if label is None:
            return None
        try:
            delta = await self._feed.changes_since(label.position, self._model)
        except FeedLostError:
            logger.warning("index starts anew: its snapshot is older than the log")
            return None
        await self._apply(engine, delta.rows, delta.removed)
        self._epoch = max(self._epoch, label.epoch + 1)
        complete = label.position.complete or delta.position.complete
        logger.info("index begins with its snapshot", extra={"changes": len(delta.rows)})
        return engine, replace(delta.position, complete=complete)

    def _save_if_due(self, engine: IndexEngine) -> None:
        """Writes a snapshot now and then; called in the thread that maintains the engine."""
        filled = self._filled
        if self._keeper is not None and filled is not None and filled.engine is engine:
            self._keeper.save_if_due(engine, self._label(filled))

    def _label(self, filled: _Filled) -> SnapshotLabel:
        # The position is read before the rows are, which may be ahead of it: to apply what they
        # have of the log again changes nothing.
        epoch = filled.first_epoch + filled.engine.generation
        position = replace(filled.position, complete=filled.complete)
        return SnapshotLabel(self._model, position, epoch)

    async def _advance(self, filled: _Filled) -> None:
        delta = await self._feed.changes_since(filled.position, self._model)
        await self._apply(filled.engine, delta.rows, delta.removed)
        # Once complete it stays so, though another model may have overtaken this one.
        complete = filled.complete or delta.position.complete
        await self._move_to(replace(filled, position=delta.position, complete=complete))

    async def _apply(
        self,
        engine: IndexEngine,
        rows: Sequence[IndexRow],
        removed: Sequence[tuple[TenantName, ItemId]],
    ) -> None:
        try:
            if len(rows) + len(removed) <= INLINE_CHANGES:
                engine.apply(rows, removed)
            else:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._threads, engine.apply, rows, removed)
        except UnsoundRowsError as error:
            # It says all of them, so the second time there is none.
            logger.error("index leaves out unsound rows", extra={"reason": str(error)})
            unsound = set(error.names)
            sound = [row for row in rows if (row.tenant, row.item) not in unsound]
            await self._apply(engine, sound, [*removed, *unsound])

    async def _move_to(self, filled: _Filled) -> None:
        if not filled.complete:
            await self._note_progress()
        async with self._moved:
            self._filled = filled
            self._moved.notify_all()

    async def _note_progress(self) -> None:
        if (now := time.monotonic()) >= self._share_due_at:
            share = await self._feed.embedded_share(self._model)
            self._share_due_at = now + SHARE_EVERY_S
            self._reason = f"re-embedding {int(100 * share)} %"


@contextmanager
def _rows_kept_from_the_collector() -> Iterator[None]:
    """Has Python's collector of cycles look at nothing that is made meanwhile, then or later.

    Rows are in no cycle, and by the million to look at them stops every thread for long.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
