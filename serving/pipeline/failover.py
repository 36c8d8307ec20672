"""A primary on a device, and a twin on a CPU that answers in its place while it is away.

Both hold the same rows and compute with the same weights, so that an answer of the twin is as
right as one of the primary; it says in `IndexAnswer.twins` that it is the twin's, and is slower.

Whether the primary is away is found out by questions, and by nothing that runs all the time: it
is away when it cannot be reached, has lost its device, or is being filled again; or when it leaves
a question alone for half of its time, and cannot say how it is either. A router holds a call back
for as long as there is no replica, so that to wait for an error would be to wait for ever. Until it
is back the twin is asked at once, and the primary beside that, now and then, how it is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError, TriviumError
from serving.domain.records import ItemId, TenantName
from serving.pipeline.semantic import QuestionVectors
from serving.ports import (
    Embedder,
    EmbeddingModel,
    IndexAnswer,
    IndexStatus,
    NeighbourSearch,
    QuestionEmbedder,
    VectorIndex,
    VectorLike,
    Vectors,
    WantedNeighbours,
)

logger = logging.getLogger(__name__)

EMBEDDER = "embedder"
INDEX = "index"

PATIENCE = 0.5
"""The share of its time that a question waits before the primary is asked whether it is there."""

CHECK_PATIENCE = 0.25
"""The share of what is left then that it has to say so. The rest is the twin's."""

LEAST_CHECK_S = 0.02
"""Within less a busy primary may not say anything either, and is not taken for lost."""

CHECK_S = 0.5
"""After so long without a word it is."""

CHECK_EVERY_S = 0.25
"""How often one that is away is asked whether it is back; no question waits for that."""

PROBE = "?"
"""What an embedder is asked to show that it is there."""

Answer = TypeVar("Answer")
Question = TypeVar("Question")

Ask = Callable[[Deadline], Awaitable[Answer]]
"""Asks a question by a deadline."""

Check = Ask[bool]
"""Asks a primary how it is: True if it answers questions, False if it is there and does not yet."""


class Failover:
    """Decides who is asked, the primary or its twin.

    Args:
        name: What is asked, as `DependencyError` names it.
        check: Asks the primary how it is.
        clock: Monotonic seconds.
    """

    def __init__(
        self, name: str, check: Check, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._check = check
        self._clock = clock
        self._has_answered = False
        self._away: DependencyError | None = None
        self._checking: asyncio.Task[None] | None = None
        self._check_at = 0.0

    @property
    def away(self) -> DependencyError | None:
        """Why the primary is not asked; None if it is."""
        return self._away

    async def ask(self, primary: Ask[Answer], twin: Ask[Answer], deadline: Deadline) -> Answer:
        """Asks the primary, or in what is left of the time the twin.

        A primary that has never answered is waited for: it is being filled for the first time,
        which is no loss.

        Raises:
            NotReadyError: Both are being filled, or the primary is for the first time.
            DependencyError: Neither can answer.
            TimeoutError: The deadline passed first.
        """
        away = self._away
        if away is None:
            try:
                answer = await self._ask_primary(primary, deadline)
            except DependencyError as error:
                if isinstance(error, NotReadyError) and not self._has_answered:
                    raise
                self._leave(error)
                away = error
            else:
                self._has_answered = True
                return answer
        elif self._clock() >= self._check_at:
            self._find_out()
        return await _ask_twin(twin, deadline, away)

    async def _ask_primary(self, primary: Ask[Answer], deadline: Deadline) -> Answer:
        asked = asyncio.ensure_future(primary(deadline))
        try:
            await asyncio.wait([asked], timeout=PATIENCE * deadline.remaining())
            if not asked.done():
                await self._require_there(asked, deadline)
            return await asked
        finally:
            _give_up(asked)

    async def _require_there(self, asked: asyncio.Future[Answer], deadline: Deadline) -> None:
        """Returns when the primary has answered, or has said how it is.

        It may well be there and wait, for a write that the question is to see.

        Raises:
            DependencyError: It does neither.
        """
        patience_s = CHECK_PATIENCE * deadline.remaining()
        check = self._find_out()
        either: list[asyncio.Future[Any]] = [asked, check]
        await asyncio.wait(either, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return
        if self._away is not None:
            raise self._away
        if not check.done() and patience_s >= LEAST_CHECK_S:
            raise self._silent()

    def _find_out(self) -> asyncio.Task[None]:
        """Asks the primary how it is, unless somebody does."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._ask_how_it_is())
        return self._checking

    async def _ask_how_it_is(self) -> None:
        try:
            async with asyncio.timeout(CHECK_S):
                answers = await self._check(Deadline.after(CHECK_S))
        except TimeoutError:
            self._leave(self._silent())
        except DependencyError as error:
            self._leave(error)
        except TriviumError:
            # It has more to do than it can, so it is there.
            pass
        else:
            if answers:
                self._come_back()
        self._check_at = self._clock() + CHECK_EVERY_S

    def _leave(self, error: DependencyError) -> None:
        if self._away is None:
            logger.warning("a twin on the CPU answers", extra={"reason": str(error)})
        self._away = error

    def _come_back(self) -> None:
        if self._away is not None:
            logger.info("a twin on the CPU answers no more", extra={"part": self._name})
        self._away = None

    def _silent(self) -> DependencyError:
        return DependencyError(self._name, "it does not answer")


async def _ask_twin(twin: Ask[Answer], deadline: Deadline, away: DependencyError) -> Answer:
    try:
        return await twin(deadline)
    except DependencyError as error:
        both_fill = isinstance(away, NotReadyError) and isinstance(error, NotReadyError)
        kind = NotReadyError if both_fill else DependencyError
        raise kind(error.name, f"{away.why}; its twin: {error.why}") from error


def _give_up(call: asyncio.Future[Answer]) -> None:
    """Cancels a call that nobody waits for, and takes note of how it ends."""
    call.cancel()
    call.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


class FailoverSearch(Generic[Question]):
    """A `NeighbourSearch` over one and its twin.

    Args:
        primary: The one that is asked.
        check: Asks it how it is.
        twin: The one that is asked in its place.
    """

    def __init__(
        self, primary: NeighbourSearch[Question], check: Check, twin: NeighbourSearch[Question]
    ) -> None:
        self._primary = primary
        self._twin = twin
        self._failover = Failover(INDEX, check)

    async def search(
        self, question: Question, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours of a question.

        Raises:
            NotReadyError: Both are being filled, or the primary is for the first time.
            DependencyError: Neither can answer.
        """

        async def in_its_place(until: Deadline) -> IndexAnswer:
            answer = await self._twin.search(question, wanted, until)
            return replace(answer, twins=(*answer.twins, INDEX))

        return await self._failover.ask(
            lambda until: self._primary.search(question, wanted, until), in_its_place, deadline
        )


class FailoverIndex(FailoverSearch[VectorLike]):
    """A `VectorIndex` over one and its twin, which follow the same log.

    Args:
        primary: The one that is asked.
        twin: The one that is asked in its place.
    """

    def __init__(self, primary: VectorIndex, twin: VectorIndex) -> None:
        super().__init__(primary, ready_index(primary), twin)
        self._indexes = primary, twin

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items either still holds; both must answer."""
        return max(await asyncio.gather(*(each.count(tenant, items) for each in self._indexes)))

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until both have seen the write: what one of them misses may be found in it."""
        return all(
            await asyncio.gather(*(each.caught_up(token, deadline) for each in self._indexes))
        )

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """The state of the primary; while it is away that of the twin, and why it is asked."""
        primary, twin = self._indexes
        away = self._failover.away
        try:
            async with asyncio.timeout(CHECK_S):
                state = await primary.status(tenant)
        except (TriviumError, TimeoutError) as error:
            why = _why(error)
        else:
            if state.ready or away is None:
                return state
            why = state.reason
        async with asyncio.timeout(CHECK_S):
            state = await twin.status(tenant)
        twins = f"; its twin: {state.reason}" if state.reason else "; its twin on the CPU answers"
        return replace(state, reason=why + twins)


def ready_index(index: VectorIndex) -> Check:
    """Asks an index whether it answers questions."""

    async def check(until: Deadline) -> bool:
        async with asyncio.timeout(until.remaining()):
            return (await index.status()).ready

    return check


def _why(error: Exception) -> str:
    if isinstance(error, DependencyError):
        return error.why
    return str(error) or "it does not answer"


@dataclass(frozen=True, slots=True)
class Embedded:
    """A question's vector, and whether the twin has made it."""

    vector: VectorLike
    by_twin: bool


class FailoverEmbedder:
    """An `Embedder` over one and its twin, which embeds questions alone.

    Documents wait for the primary. What the twin embedded would be kept for ever, and takes a CPU
    far longer.

    Args:
        primary: The one that is asked.
        twin: The one that is asked for questions in its place.
    """

    def __init__(self, primary: Embedder, twin: QuestionEmbedder) -> None:
        self._primary = primary
        self._twin = twin
        self._failover = Failover(EMBEDDER, self._embeds)

    async def _embeds(self, until: Deadline) -> bool:
        async with asyncio.timeout(until.remaining()):
            await self._primary.embed_query(PROBE, until)
        return True

    async def model(self) -> EmbeddingModel:
        """The model of both."""
        return await self._primary.model()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """Embeds texts, by the primary."""
        return await self._primary.embed_documents(texts)

    async def embed_query(self, text: str, deadline: Deadline) -> VectorLike:
        """Embeds a question.

        Raises:
            DependencyError: Neither can do it, or the twin not in time.
        """
        return (await self.embed(text, deadline)).vector

    async def embed(self, text: str, deadline: Deadline) -> Embedded:
        """Embeds a question, and says who did.

        Raises:
            DependencyError: Neither can do it, or the twin not in time.
        """

        async def at_its_place(until: Deadline) -> Embedded:
            return Embedded(await self._primary.embed_query(text, until), by_twin=False)

        async def in_its_place(until: Deadline) -> Embedded:
            return Embedded(await self._twin.embed_query(text, until), by_twin=True)

        return await self._failover.ask(at_its_place, in_its_place, deadline)


def questions_of(embedder: FailoverEmbedder) -> QuestionVectors[Embedded]:
    """The vectors of the last questions; those of the twin for who waits for them alone.

    Otherwise a question would be said to be the twin's long after the primary is back.
    """
    return QuestionVectors(embedder.embed, is_kept=lambda made: not made.by_twin)


class FailoverEmbeddedSearch:
    """A `SemanticSearch` over an embedder with a twin, and an index.

    Args:
        questions: Makes the vectors, each once for all that ask for it at a time.
        index: Where they are looked up.
    """

    def __init__(self, questions: QuestionVectors[Embedded], index: VectorIndex) -> None:
        self._questions = questions
        self._index = index

    async def search(self, text: str, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        """Embeds a question and finds what is nearest to it."""
        started = time.perf_counter()
        made = await self._questions.of(text, deadline)
        embedding_s = time.perf_counter() - started
        answer = await self._index.search(made.vector, wanted, deadline)
        twins = (EMBEDDER, *answer.twins) if made.by_twin else answer.twins
        return replace(answer, embedding_s=embedding_s, twins=twins)
