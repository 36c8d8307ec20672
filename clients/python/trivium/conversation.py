"""Memory for a conversation, without making anyone wait: recall while somebody speaks.

`Recall` retrieves for each interim transcript, so that the block for the prompt is there when the
turn ends. It needs asyncio and no framework.
"""

from __future__ import annotations

import asyncio
import logging
import re
import unicodedata
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol, Self, Unpack

from trivium.errors import DeadlineError, OverloadedError, TriviumError, UnavailableError
from trivium.values import (
    BriefingOptions,
    Filter,
    IngestResult,
    Item,
    Retrieval,
    Segment,
    StreamedRetrieval,
    Transcript,
    WarmPart,
)
from trivium.wire.requests import RetrieveOptions

logger = logging.getLogger(__name__)

BUDGET_S = 0.08
"""An acceptable pause before an answer."""

EARLY_BUDGET_S = 0.2
"""The least time of a search that nobody waits for yet. A busy service refuses it less, and legs
that are late still add to it; it ends before the silence that ends a turn is over."""

DEBOUNCE_S = 0.1
"""The shortest time between two transcripts that are sent. Speech recognition sends one every 100
to 300 ms, and each costs the service a search."""

FIRST_RETRY_S = 0.5
MAX_RETRY_S = 2.0
"""A write that fails is tried again after the first time, then after twice as long, up to the
second, until the conversation is closed: what was said during an outage is stored after it."""

MAX_WAITING_WRITES = 256
CLOSE_S = 5.0
"""The wait of `close` for writes; longer than `MAX_RETRY_S`, so each is tried once more."""

FINISH_S = 1.0
"""The time for a stream to end after its turn."""

_RETRYABLE = (UnavailableError, OverloadedError, DeadlineError)
_APOSTROPHES = re.compile("['\u2019]")
_WORD = re.compile(r"\w+")
_END_OF_BLOCK = "</memory>"


class Memory(Protocol):
    """The methods of `AsyncClient` that `Recall` calls."""

    def retrieve_stream(
        self,
        transcripts: AsyncIterator[Transcript],
        *,
        briefing: BriefingOptions | None = None,
        timeout: float | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> AsyncIterator[StreamedRetrieval]:
        """Retrieves while somebody speaks."""
        ...

    async def ingest(self, items: list[Item]) -> IngestResult:
        """Stores items."""
        ...

    async def warm(self, *, profile: str = "") -> tuple[WarmPart, ...]:
        """Prepares for the first query."""
        ...


@dataclass(slots=True)
class Counts:
    """The turns and the writes of a conversation, by outcome.

    Attributes:
        ready: Turns whose block was there at their end.
        waited: Turns whose block came within the budget.
        late: Turns without a block, as the budget ran out.
        failed: Turns without a block, as the service was not reached or refused.
        empty: Turns for which nothing was found; they are ready or waited, too.
        sent: Transcripts that were sent before the end of their turn.
        skipped: Transcripts that were not, as they were replaced soon or had the same words.
        written: Turns that were stored.
        write_retries: Attempts to store a turn that were repeated.
        write_failures: Turns that were not stored.
    """

    ready: int = 0
    waited: int = 0
    late: int = 0
    failed: int = 0
    empty: int = 0
    sent: int = 0
    skipped: int = 0
    written: int = 0
    write_retries: int = 0
    write_failures: int = 0

    @property
    def turns(self) -> int:
        """All turns."""
        return self.ready + self.waited + self.late + self.failed


class TurnOutcome(StrEnum):
    """The outcome of the recall for a turn."""

    FOUND = "found"
    NOTHING = "nothing"
    """The service answered, and has nothing that fits."""
    LATE = "late"
    """It did not answer within the budget."""
    FAILED = "failed"
    """It was not reached, or refused."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of a turn: the block for the prompt, empty unless one was found."""

    block: str
    outcome: TurnOutcome


def words_of(text: str) -> str:
    """The words of a text, without case and punctuation: what makes two transcripts equal."""
    folded = _APOSTROPHES.sub("", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(_WORD.findall(folded))


def one_block(*blocks: str) -> str:
    """Joins blocks for one prompt, empty ones left out: a line that several have stands once."""
    filled = [block for block in blocks if block]
    if len(filled) < 2:
        return "".join(filled)
    lines = (line for block in filled for line in block.splitlines() if line != _END_OF_BLOCK)
    return "\n".join([*dict.fromkeys(lines), _END_OF_BLOCK])


class Opening:
    """The block of the start of a conversation, for one turn: the first once the block is there.

    Attributes:
        block: From `load_context`; empty until it is there.
    """

    def __init__(self) -> None:
        self.block = ""
        self._turn: object = None

    def for_turn(self, turn: object) -> str:
        """The block if this is its turn, however often that is asked; else empty."""
        if self.block and self._turn is None:
            self._turn = turn
        return self.block if turn == self._turn else ""


class Recall:
    """The memory of one conversation, used within one event loop.

    No method raises because the service is down, refuses or is slow: the conversation goes on
    without memory, and `counts` and the log say so.

    Example:
        >>> async with Recall(client, session="call-17") as recall:  # doctest: +SKIP
        ...     recall.heard("when is")
        ...     recall.heard("when is the wedding")
        ...     block = await recall.turn("When is the wedding?")
        ...     recall.said("Nora", "When is the wedding?", turn="1")

    Args:
        client: An `AsyncClient`, which may be shared between conversations.
        session: The name of the conversation, unique within the tenant; by default a new one.
        budget: How long `turn` may wait, in seconds. The searches before its end have more time,
            since nobody waits for them.
        debounce: The shortest time between two transcripts that are sent, in seconds.
        briefing: The options of the block.
        **options: Those of `AsyncClient.retrieve`. What was said in this session is left out of
            the block, as the chat has it; a filter by this session still finds it.

    Attributes:
        counts: How the turns and the writes ended.
    """

    def __init__(
        self,
        client: Memory,
        *,
        session: str = "",
        budget: float = BUDGET_S,
        debounce: float = DEBOUNCE_S,
        briefing: BriefingOptions | None = None,
        **options: Unpack[RetrieveOptions],
    ) -> None:
        self.counts = Counts()
        self._client = client
        self._budget = budget
        self._debounce = debounce
        self._briefing = briefing or BriefingOptions()
        session = session or f"call-{uuid.uuid4()}"
        options["filter"] = _without(session, options.get("filter"))
        self._options = options
        self._turn: _Turn | None = None
        self._unsent = ""
        self._timer: asyncio.TimerHandle | None = None
        # The event loop has only weak references to tasks.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writer = _Writer(client, session, self.counts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, timeout: float = CLOSE_S) -> None:
        """Drops what was heard, and waits for the writes; the client stays open."""
        self.drop()
        await self._writer.close(timeout)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def warm(self) -> None:
        """Prepares the service for the first turn; call it when the phone rings."""
        try:
            parts = await self._client.warm(profile=self._options.get("profile", ""))
        except TriviumError as error:
            logger.warning("not warm: %s", error)
        else:
            for part in parts:
                if not part.warm:
                    logger.info("not warm: %s: %s", part.part, part.reason)

    def heard(self, partial: str) -> None:
        """Takes an interim transcript: what was said so far of the current turn.

        The first one is sent at once, a later one when `debounce` has passed, if it is then the
        newest.
        """
        words = words_of(partial)
        if not words or words == words_of(self._unsent or self._newest):
            self.counts.skipped += 1
            return
        if self._unsent:
            self.counts.skipped += 1
        self._unsent = partial
        if self._timer is None:
            self._send()

    async def turn(self, text: str, budget: float | None = None) -> str:
        """Ends the turn, whose whole text this is, and returns the block for the prompt.

        A result whose words equal those of the turn is taken at once. Otherwise this waits, at most
        for the budget. Empty if nothing was found, or not in time.

        Args:
            text: The final transcript.
            budget: How long to wait, in seconds, if not as long as the budget of `Recall`.
        """
        return (await self.end_turn(text, budget)).block

    async def end_turn(self, text: str, budget: float | None = None) -> TurnEnd:
        """As `turn`; says also why there is no block."""
        turn, self._turn = self._turn, None
        self._clear_unsent()
        if turn is None or turn.ended:
            turn = self._begin()
        budget = self._budget if budget is None else budget
        ready = turn.finish(text, budget)
        if ready is not None:
            self._kept(asyncio.create_task(turn.end()))
            self.counts.ready += 1
            return self._end(ready)
        try:
            retrieval = await turn.final(budget)
        except (TimeoutError, DeadlineError):
            self.counts.late += 1
            return TurnEnd("", TurnOutcome.LATE)
        except (TriviumError, ValueError):
            retrieval = None
        finally:
            turn.cancel()
        if retrieval is None:
            self.counts.failed += 1
            return TurnEnd("", TurnOutcome.FAILED)
        self.counts.waited += 1
        return self._end(retrieval)

    def drop(self) -> None:
        """Drops what was heard, as when it was no turn, or the caller is interrupted."""
        turn, self._turn = self._turn, None
        self._clear_unsent()
        if turn is not None:
            turn.cancel()

    def said(
        self, speaker: str, text: str, *, turn: str, event_time: datetime | None = None
    ) -> None:
        """Stores a turn in the background; repeats of a turn are ignored.

        It is stored as the segment with the id "session/turn", so that storing it twice, from two
        processes or after a restart, changes nothing. Of an exchange, what the caller said and what
        the bot answered are two turns.

        Args:
            speaker: Who said it.
            text: What was said.
            turn: The name of the turn, unique within the session.
            event_time: When it was said; timezone-aware, None means now.
        """
        self._writer.add(speaker, text, turn, event_time or datetime.now(UTC))

    @property
    def _newest(self) -> str:
        return "" if self._turn is None else self._turn.newest

    def _send(self) -> None:
        self._timer = None
        if not self._unsent:
            return
        if self._turn is None or self._turn.ended:
            self._turn = self._begin()
        self._turn.hear(self._unsent)
        self._unsent = ""
        self.counts.sent += 1
        self._timer = asyncio.get_running_loop().call_later(self._debounce, self._send)

    def _begin(self) -> _Turn:
        turn = _Turn(
            lambda transcripts: self._client.retrieve_stream(
                transcripts,
                briefing=self._briefing,
                timeout=max(self._budget, EARLY_BUDGET_S),
                **self._options,
            )
        )
        self._kept(turn.reading)
        return turn

    def _clear_unsent(self) -> None:
        self._unsent = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _kept(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("a stream failed: %s", error)

    def _end(self, retrieval: Retrieval) -> TurnEnd:
        if not retrieval.hits:
            self.counts.empty += 1
        outcome = TurnOutcome.FOUND if retrieval.briefing else TurnOutcome.NOTHING
        return TurnEnd(retrieval.briefing, outcome)


def _without(session: str, filter_: Filter | None) -> Filter:
    """The filter without what was said in a session, unless it is by that session."""
    given = filter_ or Filter()
    if session in given.sessions:
        return given
    none_of = replace(given.none_of, sessions=[*given.none_of.sessions, session])
    return replace(given, none_of=none_of)


class _Turn:
    """The stream of one turn: transcripts go out, and the newest answer is kept.

    Attributes:
        reading: Reads the answers; its result is the final one.
    """

    def __init__(
        self, open_stream: Callable[[AsyncIterator[Transcript]], AsyncIterator[StreamedRetrieval]]
    ) -> None:
        self._open_stream = open_stream
        self._outgoing: asyncio.Queue[Transcript] = asyncio.Queue()
        self._texts: list[str] = []
        self._answer: tuple[str, Retrieval] | None = None
        self.reading = asyncio.create_task(self._read())

    @property
    def newest(self) -> str:
        """The newest transcript."""
        return self._texts[-1] if self._texts else ""

    @property
    def ended(self) -> bool:
        """Whether the stream has ended, and hears nothing any more."""
        return self.reading.done()

    def hear(self, text: str) -> None:
        """Sends a transcript."""
        self._send(Transcript(text))

    def finish(self, text: str, budget: float) -> Retrieval | None:
        """Sends the final transcript; returns the result if it is there."""
        words = words_of(text)
        if words == words_of(self.newest):
            # As it was sent before, so that the service takes the search that it has begun.
            self._send(Transcript(self.newest, final=True))
        else:
            self._send(Transcript(text, final=True, timeout=budget))
        if self._answer is None or self._answer[0] != words:
            return None
        return self._answer[1]

    def _send(self, transcript: Transcript) -> None:
        self._texts.append(transcript.text)
        self._outgoing.put_nowait(transcript)

    async def final(self, timeout: float) -> Retrieval | None:
        """Waits for the final result; None if the stream ended without one.

        Raises:
            TimeoutError: It did not come in time.
            TriviumError: The stream failed.
        """
        done, _ = await asyncio.wait([self.reading], timeout=timeout)
        if not done:
            raise TimeoutError
        return self.reading.result()

    async def end(self) -> None:
        """Lets the stream end by itself, so that the service counts what was used."""
        with suppress(TimeoutError, TriviumError, ValueError):
            await self.final(FINISH_S)
        self.cancel()

    def cancel(self) -> None:
        """Ends the stream, and the search."""
        self.reading.cancel()

    async def _read(self) -> Retrieval | None:
        final = None
        async for answer in self._open_stream(self._transcripts()):
            text = self._texts[answer.transcript_number - 1]
            self._answer = words_of(text), answer.retrieval
            if answer.final:
                final = answer.retrieval
        return final

    async def _transcripts(self) -> AsyncIterator[Transcript]:
        while True:
            transcript = await self._outgoing.get()
            yield transcript
            if transcript.final:
                return


class _Writer:
    """Stores turns one after the other, in the background."""

    def __init__(self, client: Memory, session: str, counts: Counts) -> None:
        self._client = client
        self._session = session
        self._counts = counts
        self._known: set[str] = set()
        self._waiting: asyncio.Queue[Segment] = asyncio.Queue(MAX_WAITING_WRITES)
        self._writing: asyncio.Task[None] | None = None

    def add(self, speaker: str, text: str, turn: str, event_time: datetime) -> None:
        """Queues a turn, unless it is known."""
        if turn in self._known:
            return
        self._known.add(turn)
        segment = Segment(
            id=f"{self._session}/{turn}",
            text=text,
            speaker=speaker,
            session=self._session,
            event_time=event_time,
        )
        try:
            self._waiting.put_nowait(segment)
        except asyncio.QueueFull:
            self._fail("too many writes wait")
            return
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def close(self, timeout: float) -> None:
        """Waits for what is queued; what is not stored by then counts as failed."""
        if self._writing is None:
            return
        _, unfinished = await asyncio.wait([self._writing], timeout=timeout)
        if unfinished:
            self._writing.cancel()
            await asyncio.wait(unfinished)
            self._counts.write_failures += 1 + self._waiting.qsize()
            logger.warning("turns are not stored: the time to close ran out")

    async def _write(self) -> None:
        while not self._waiting.empty():
            await self._store(self._waiting.get_nowait())

    async def _store(self, segment: Segment) -> None:
        try:
            result = await self._ingest(segment)
        except (TriviumError, ValueError) as error:
            self._fail(str(error))
            return
        if result.rejected:
            self._fail(str(result.rejected[0].violations))
        else:
            self._counts.written += 1

    async def _ingest(self, segment: Segment) -> IngestResult:
        delay = FIRST_RETRY_S
        while True:
            try:
                return await self._client.ingest([segment])
            except _RETRYABLE:
                self._counts.write_retries += 1
                await asyncio.sleep(delay)
                delay = min(2 * delay, MAX_RETRY_S)

    def _fail(self, reason: str) -> None:
        self._counts.write_failures += 1
        logger.warning("a turn is not stored: %s", reason)
