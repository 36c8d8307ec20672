"""A vector index that follows PostgreSQL: filled once, then kept up to date by the change log.

Every replica follows the log independently. While PostgreSQL is down the index answers from the
rows it has, and answers to requests with a newer token are marked stale. When the log no longer
reaches back to its position, the index is refilled and its epoch increases. The epoch also
increases when the engine restructures its rows; no epoch is used twice in a process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeVar, TypeVarTuple

from serving.domain.budget import VECTOR_SEARCH, Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import NotReadyError, UnavailableError
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.signals import Traits
from serving.domain.soundness import require_comparable
from serving.pipeline.index.late_interaction import RESCORED, rescored
from serving.pipeline.index.maintenance import Maintenance
from serving.pipeline.index.search_queue import SearchQueue
from serving.pipeline.inference.device_watch import Watch
from serving.ports.embedding import EmbeddingModel, StatedVector, VectorLike
from serving.ports.index_engine import (
    FeedLostError,
    FeedPosition,
    IndexEngine,
    IndexFeed,
    IndexRow,
    Neighbours,
    UnsoundRowsError,
)
from serving.ports.vector_index import (
    AdjacencyAnswer,
    IndexAnswer,
    IndexStatus,
    IndexTier,
    VectorKind,
    WantedNeighbours,
)

logger = logging.getLogger(__name__)

INLINE_ROWS = 20_000
"""Larger scans run in a thread; this many rows of 384 dimensions take 1 ms."""

INLINE_CHANGES = 32
"""More changes are applied in a thread; a row takes about 0.02 ms."""

SHARE_EVERY_S = 1.0
"""The least time between two counts of embedded rows, each of which reads all rows: one that takes
long is repeated as rarely as keeps it below a tenth of the time."""

POLL_S = 1.0
"""Writers announce their changes; this finds those whose announcement was lost."""
FIRST_BACK_OFF_S = 0.1
LAST_BACK_OFF_S = 5.0

STOP_S = 5.0
"""The wait of a stop for maintenance, which ends between two blocks of rows."""


Given = TypeVarTuple("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Filled:
    """A filled engine and its position in the log.

    `first_epoch` is the epoch of the engine's generation 0. `complete` is whether all rows have had
    a vector of the model once.
    """

    engine: IndexEngine
    first_epoch: int
    position: FeedPosition
    complete: bool


class LogFollowingIndex:
    """A `CandidateIndex` over an `IndexEngine` whose rows follow an `IndexFeed`.

    It is an async context manager: it follows the feed between `start` and `stop`, and answers as
    soon as it is filled. `make_engine` makes an empty engine; if `together`, the searches of one
    turn of the event loop are done at once, which is faster on a GPU.

    After a change of the model few rows have a vector of the new one. The index is therefore not
    ready until the embeddings of `model` were complete once; until then searches raise
    `NotReadyError` with the progress. Later only the latest writes can be missing, for which a
    request can wait with a token.
    """

    def __init__(
        self,
        feed: IndexFeed,
        model: EmbeddingModel,
        make_engine: Callable[[], IndexEngine],
        *,
        together: bool = False,
        watch: Watch = nullcontext,
    ) -> None:
        self._together = together
        self._watch = watch
        self._feed = feed
        self._model = model
        self._make_engine = make_engine
        self._maintenance: Maintenance | None = None
        self._filled: _Filled | None = None
        self._share_due_at = 0.0
        self._reason = "starting"
        self._epoch = 1
        self._moved = asyncio.Condition()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="vector-index")
        self._searches = SearchQueue(watch)
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._following = asyncio.create_task(self._follow(), name="index-follow")

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        self._filled, self._reason = None, "stopped"
        if self._maintenance is not None:
            self._maintenance.end()
            await asyncio.to_thread(self._maintenance.join, STOP_S)
        await asyncio.to_thread(self._threads.shutdown)

    # ------------------------------------------------------------ answering

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds neighbours; raises `NotReadyError` while it is filled or its vectors are made."""
        filled, stale = await self._ready_after(wanted.token, deadline)
        if not isinstance(vector, StatedVector):
            found = await self._found(filled.engine, vector, wanted, deadline)
        elif wanted.late_interaction is None:
            found = await self._found(filled.engine, vector.values, wanted, deadline)
        else:
            least = wanted.late_interaction
            found = await self._rescored(filled.engine, vector, wanted, least, deadline)
        epoch = filled.first_epoch + found.generation
        return IndexAnswer(found.candidates, epoch, stale, found.evidence)

    async def _rescored(
        self,
        engine: IndexEngine,
        vector: StatedVector,
        wanted: WantedNeighbours,
        least: float,
        deadline: Deadline,
    ) -> Neighbours:
        deeper = replace(wanted, depth=max(wanted.depth, RESCORED))
        found = await self._found(engine, vector.values, deeper, deadline)
        states_of = partial(engine.states, wanted.scope.tenant)
        candidates = rescored(found.candidates, vector, states_of, least)
        return replace(found, candidates=candidates[: wanted.depth])

    async def _found(
        self, engine: IndexEngine, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> Neighbours:
        require_comparable(vector, self._model.dimension)
        if self._together:
            return await self._searches.search(engine, vector, wanted)
        if engine.scan_size(wanted.scope.tenant, wanted.kind) <= INLINE_ROWS:
            return self._watched(engine.search, vector, wanted)
        async with asyncio.timeout(deadline.remaining()):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._threads, self._watched, engine.search, vector, wanted
            )

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> IndexAnswer:
        """Finds related segments, as `search` finds neighbours; it must hold all rows."""
        filled, stale = await self._ready_after(query.token, deadline)
        found = filled.engine.related(query, seeds, depth)
        return IndexAnswer(found, filled.first_epoch + filled.engine.generation, stale)

    async def adjacent(
        self, query: Query, items: Sequence[ItemId], deadline: Deadline
    ) -> AdjacencyAnswer:
        """Returns the turns next to the items, as `related` finds segments."""
        filled, stale = await self._ready_after(query.token, deadline)
        return AdjacencyAnswer(filled.engine.adjacent(query.scope, items), stale)

    def traits(self, tenant: TenantName, items: Sequence[ItemId]) -> dict[ItemId, Traits]:
        """Returns what signals ask of those of the items that it has; none before it is filled."""
        return {} if self._filled is None else self._filled.engine.traits(tenant, items)

    def closed(self, scope: Scope, items: Sequence[ItemId]) -> dict[ItemId, tuple[ItemId, ...]]:
        """Returns which of the segments rest on closed facts alone; none before it is filled."""
        return {} if self._filled is None else self._filled.engine.closed(scope, items)

    def is_at_hand(self, tenant: TenantName, kind: VectorKind) -> bool:
        """Returns whether a search is short; false before it is filled."""
        if self._filled is None or not self._filled.complete:
            return False
        scan_size = self._filled.engine.scan_size(tenant, kind)
        return not self._together and scan_size <= INLINE_ROWS

    async def _ready_after(
        self, token: ConsistencyToken | None, deadline: Deadline
    ) -> tuple[_Filled, bool]:
        """Waits for the token until shortly before the deadline; True if it was not seen."""
        self._require_ready()
        stale = False
        if token is not None:
            stale = not await self.caught_up(token, VECTOR_SEARCH.before(deadline))
        if deadline.passed:
            raise TimeoutError
        return self._require_ready(), stale

    def _watched(self, use: Callable[[*Given], Result], *given: *Given) -> Result:
        with self._watch():
            return use(*given)

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """Counts items; raises `NotReadyError` before it is filled."""
        if self._filled is None:
            raise NotReadyError("index", self._reason)
        return self._filled.engine.count(tenant, items)

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits, but not for a token of another epoch, which is of another database."""
        if self._filled is not None and self._filled.position.epoch != token.epoch:
            return False
        return await self._wait_for(lambda: self._has_seen(token), deadline)

    async def ready(self, deadline: Deadline) -> bool:
        """Waits until searches are answered; False if the deadline passes first."""
        return await self._wait_for(
            lambda: self._filled is not None and self._filled.complete, deadline
        )

    async def _wait_for(self, condition: Callable[[], bool], deadline: Deadline) -> bool:
        try:
            async with asyncio.timeout(deadline.remaining()), self._moved:
                await self._moved.wait_for(condition)
        except TimeoutError:
            return condition()
        return True

    def _has_seen(self, token: ConsistencyToken) -> bool:
        if self._filled is None:
            return False
        position = self._filled.position
        return position.epoch == token.epoch and token.seen_by(position.embedded)

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        filled = self._filled
        if filled is None:
            return IndexStatus(ready=False, vector_count=0, epoch=self._epoch, reason=self._reason)
        engine = filled.engine
        return IndexStatus(
            ready=filled.complete,
            vector_count=engine.vector_count,
            epoch=filled.first_epoch + engine.generation,
            reason="" if filled.complete else self._reason,
            tiers=tuple(engine.tiers(tenant)) if tenant is not None else (),
        )

    def tiers(self) -> list[IndexTier]:
        """Returns how the rows of all tenants are searched; empty before the index is filled."""
        return self._filled.engine.tiers() if self._filled is not None else []

    async def lag_s(self) -> float | None:
        """Returns the age in seconds of the oldest change not applied; None before it is filled."""
        return None if self._filled is None else await self._feed.lag_s(self._filled.position)

    def _require_ready(self) -> _Filled:
        if self._filled is None or not self._filled.complete:
            raise NotReadyError("index", self._reason)
        return self._filled

    # ------------------------------------------------------------ following

    async def _follow(self) -> None:
        back_off_s = FIRST_BACK_OFF_S
        while True:
            try:
                if self._filled is None:
                    await self._fill()
                else:
                    await self._advance(self._filled)
                    await self._feed.wait(POLL_S)
                back_off_s = FIRST_BACK_OFF_S
                continue
            except FeedLostError:
                logger.warning(
                    "refilling the index: the log no longer reaches back",
                    extra={"epoch": self._epoch},
                )
                self._restart("rebuilding")
            except (UnavailableError, TimeoutError) as error:
                logger.warning("index feed unavailable", extra={"reason": type(error).__name__})
            except Exception:
                # The engine may hold half of a change, so it cannot be used further.
                logger.exception("index failed")
                self._restart("failed, trying again")
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, LAST_BACK_OFF_S)

    def _restart(self, reason: str) -> None:
        if self._maintenance is not None:
            self._maintenance.end()
        if self._filled is not None:
            # A closed engine begins no new epoch, even if searches are still under way.
            self._epoch = self._filled.first_epoch + self._filled.engine.generation
        self._filled = None
        self._reason = reason
        self._epoch += 1

    async def _fill(self) -> None:
        engine = self._make_engine()
        async with self._feed.bootstrap(self._model) as (position, batches):
            with _hidden_from_garbage_collector():
                async for rows in batches:
                    await self._apply(engine, rows, ())
        self._share_due_at = 0.0
        await self._move_to(_Filled(engine, self._epoch, position, position.complete))
        self._maintenance = Maintenance(engine, self._watch)
        self._maintenance.start()
        logger.info(
            "index filled",
            extra={
                "vectors": engine.vector_count,
                "epoch": self._epoch,
                "planned_bytes": sum(tier.memory_bytes for tier in engine.tiers()),
            },
        )

    async def _advance(self, filled: _Filled) -> None:
        delta = await self._feed.changes_since(filled.position, self._model)
        await self._apply(filled.engine, delta.rows, delta.removed)
        # Once complete it stays so, even if another model becomes complete later.
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
                self._watched(engine.apply, rows, removed)
            else:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(
                    self._threads, self._watched, engine.apply, rows, removed
                )
        except UnsoundRowsError as error:
            # The error names all of them, so the second attempt has none.
            logger.error("rows with unsound vectors skipped", extra={"reason": str(error)})
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
            self._share_due_at = now + max(SHARE_EVERY_S, 10 * (time.monotonic() - now))
            self._reason = f"re-embedding {int(100 * share)} %"


@contextmanager
def _hidden_from_garbage_collector() -> Iterator[None]:
    """Excludes objects made in the body from garbage collection, then and later.

    Rows form no reference cycles, and scanning millions of them stops all threads for long.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
