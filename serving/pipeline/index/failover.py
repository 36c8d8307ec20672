"""Failover from a part of another deployment to its standby on a CPU, or to an error at once.

Both hold the same rows and compute with the same weights, so the standby's answers are as good as
the primary's, only slower; `IndexAnswer.standbys` names the parts whose standbys answered.

Nothing polls the primary while it works: requests detect that it is unavailable. It is unavailable
when it cannot be reached, has lost its device or is being refilled, and also when it has not
answered within half of a request's time and does not answer a health check either. (A Ray router
holds calls back for as long as there is no replica, so waiting for an error could take for ever.)
While the primary is unavailable requests go straight to the standby, and one of them at a time
starts a health check of the primary in the background. Without a standby they fail at once, rather
than wait out their time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError, TriviumError
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.query import Query
from serving.ports.embedding import VectorLike
from serving.ports.vector_index import (
    IndexAnswer,
    IndexStatus,
    NeighbourSearch,
    VectorIndex,
    WantedNeighbours,
    WholeIndex,
)

logger = logging.getLogger(__name__)

INDEX = "index"

PATIENCE = 0.5
"""The share of a request's time after which the primary's health is checked."""

CHECK_PATIENCE = 0.25
"""The share of the time left that the health check may take. The rest is the standby's."""

LEAST_CHECK_S = 0.02
"""In less time a busy primary may not answer a check either, so its silence proves nothing."""

CHECK_S = 0.5
"""The timeout of a health check."""

CHECK_EVERY_S = 0.25
"""The pause between health checks of an unavailable primary; no request waits for them."""

NO_ANSWER = "it does not answer"

Answer = TypeVar("Answer")
Part = TypeVar("Part")
Question = TypeVar("Question")

Check = Callable[[Deadline], Awaitable[bool]]
"""Checks a primary: True if it answers requests, False if it is up but not ready."""


class Failover(Generic[Part]):
    """Sends requests to a primary, or to its standby while the primary is unavailable.

    Args:
        name: The part, as `DependencyError` names it.
        primary: Gets the requests.
        standby: Gets them while the primary is unavailable; None fails them.
        check: Checks the primary's health.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        primary: Part,
        standby: Part | None,
        check: Check,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._primary = primary
        self._standby = standby
        self._check = check
        self._clock = clock
        self._has_answered = False
        self._away: DependencyError | None = None
        self._checking: asyncio.Task[None] | None = None
        self._check_at = 0.0

    @property
    def away(self) -> DependencyError | None:
        """Why the primary is unavailable; None if it is not."""
        return self._away

    async def ask(
        self, call: Callable[[Part, Deadline], Awaitable[Answer]], deadline: Deadline
    ) -> tuple[Answer, bool]:
        """Calls the primary, or in the time that remains the standby.

        A primary that has never answered is not failed over from while it reports that it is not
        ready: it is being filled for the first time.

        Args:
            call: Makes the request of either part; must finish by the deadline it is given.
            deadline: When the answer is due.

        Returns:
            The answer, and whether the standby gave it.

        Raises:
            NotReadyError: Both are being filled, or the primary is for the first time.
            DependencyError: Neither can answer.
            TimeoutError: The deadline passed first.
        """
        away = self._away
        if away is None:
            try:
                answer = await self._ask_primary(call, deadline)
            except DependencyError as error:
                if isinstance(error, NotReadyError) and not self._has_answered:
                    raise
                self._leave(error)
                away = error
            else:
                self._has_answered = True
                return answer, False
        elif self._clock() >= self._check_at:
            self._start_check()
        if self._standby is None:
            raise away
        try:
            return await call(self._standby, deadline), True
        except DependencyError as error:
            both_fill = isinstance(away, NotReadyError) and isinstance(error, NotReadyError)
            kind = NotReadyError if both_fill else DependencyError
            raise kind(error.name, f"{away.why}; its standby: {error.why}") from error

    async def _ask_primary(
        self, call: Callable[[Part, Deadline], Awaitable[Answer]], deadline: Deadline
    ) -> Answer:
        asked = asyncio.ensure_future(call(self._primary, deadline))
        try:
            await asyncio.wait([asked], timeout=PATIENCE * deadline.remaining())
            if not asked.done():
                await self._require_there(asked, deadline)
            return await asked
        finally:
            asked.cancel()
            # Marks an error that comes too late as retrieved.
            asked.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def _require_there(self, asked: asyncio.Future[Answer], deadline: Deadline) -> None:
        """Returns once the primary has answered, or passed a health check.

        A healthy primary may take long because it waits for the write that the request is to see.

        Raises:
            DependencyError: It did neither.
        """
        patience_s = CHECK_PATIENCE * deadline.remaining()
        check = self._start_check()
        either: list[asyncio.Future[Any]] = [asked, check]
        await asyncio.wait(either, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return
        if self._away is not None:
            raise self._away
        if not check.done() and patience_s >= LEAST_CHECK_S:
            raise DependencyError(self._name, NO_ANSWER)

    def _start_check(self) -> asyncio.Task[None]:
        """Starts a health check of the primary, unless one is under way."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_primary())
        return self._checking

    async def _check_primary(self) -> None:
        try:
            async with asyncio.timeout(CHECK_S):
                ready = await self._check(Deadline.after(CHECK_S))
        except TimeoutError:
            self._leave(DependencyError(self._name, NO_ANSWER))
        except DependencyError as error:
            self._leave(error)
        except TriviumError:
            # It is overloaded, and so up.
            pass
        else:
            if ready:
                self._come_back()
        self._check_at = self._clock() + CHECK_EVERY_S

    def _leave(self, error: DependencyError) -> None:
        if self._away is None:
            logger.warning("primary is unavailable", extra={"reason": str(error)})
        self._away = error

    def _come_back(self) -> None:
        if self._away is not None:
            logger.info("primary is back", extra={"part": self._name})
        self._away = None


class FailoverSearch(Generic[Question]):
    """A `NeighbourSearch` over a primary and its standby.

    Args:
        primary: Gets the requests.
        standby: Gets them while the primary is unavailable; None fails them.
        check: Checks the primary's health.
    """

    def __init__(
        self,
        primary: NeighbourSearch[Question],
        standby: NeighbourSearch[Question] | None,
        check: Check,
    ) -> None:
        self._failover = Failover(INDEX, primary, standby, check)

    async def search(
        self, question: Question, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours of a question.

        Raises:
            NotReadyError: Both are being filled, or the primary is for the first time.
            DependencyError: Neither can answer.
        """
        answer, by_standby = await self._failover.ask(
            lambda part, until: part.search(question, wanted, until), deadline
        )
        return replace(answer, standbys=(*answer.standbys, INDEX)) if by_standby else answer


class FailoverIndex(FailoverSearch[VectorLike]):
    """A `WholeIndex` over a primary and its standby, which follow the same log.

    Of a shard, `related` must not be called.

    Args:
        primary: Gets the requests.
        standby: Gets them while the primary is unavailable; None fails them.
    """

    def __init__(self, primary: WholeIndex, standby: WholeIndex | None = None) -> None:
        super().__init__(primary, standby, ready_check(primary))
        self._primary = primary
        self._standby = standby
        self._indexes = [primary] if standby is None else [primary, standby]

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> IndexAnswer:
        """Finds segments that share mentions with the seeds, in the primary or its standby.

        Raises:
            NotReadyError: Both are being filled, or the primary is for the first time.
            DependencyError: Neither can answer.
        """
        answer, by_standby = await self._failover.ask(
            lambda part, until: cast(WholeIndex, part).related(query, seeds, depth, until),
            deadline,
        )
        return replace(answer, standbys=(*answer.standbys, INDEX)) if by_standby else answer

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """Returns how many of the items any of them still holds; all must answer."""
        return max(await asyncio.gather(*(each.count(tenant, items) for each in self._indexes)))

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until all have seen the write, since any may answer the next request."""
        return all(
            await asyncio.gather(*(each.caught_up(token, deadline) for each in self._indexes))
        )

    async def outdated_snapshots(self, write: ConsistencyToken, deadline: Deadline) -> int:
        """Returns how many outdated snapshots any of them sees; all must answer."""
        return max(
            await asyncio.gather(
                *(each.outdated_snapshots(write, deadline) for each in self._indexes)
            )
        )

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """Returns the primary's state; while it is unavailable the standby's, with the reason.

        Raises:
            DependencyError: The primary is unavailable, and has no standby.
        """
        away = self._failover.away
        try:
            async with asyncio.timeout(CHECK_S):
                state = await self._primary.status(tenant)
        except (TriviumError, TimeoutError) as error:
            why = error.why if isinstance(error, DependencyError) else str(error) or NO_ANSWER
            if self._standby is None:
                raise DependencyError(INDEX, why) from error
        else:
            if state.ready or away is None or self._standby is None:
                return state
            why = state.reason
        async with asyncio.timeout(CHECK_S):
            state = await self._standby.status(tenant)
        answers = "its standby on the CPU answers"
        of_standby = f"its standby: {state.reason}" if state.reason else answers
        return replace(state, reason=f"{why}; {of_standby}")


def ready_check(index: VectorIndex) -> Check:
    """Makes a health check that passes when the index is ready."""

    async def check(until: Deadline) -> bool:
        async with asyncio.timeout(until.remaining()):
            return (await index.status()).ready

    return check
