"""A service for conversations in virtual time: each search and each write ends as it is told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from tests.fakes.retrievals import NO_TIME, retrieval
from trivium import (
    BriefingOptions,
    Filter,
    IngestResult,
    Item,
    Retrieval,
    Segment,
    StreamedRetrieval,
    Transcript,
    TriviumError,
    UnavailableError,
    WarmPart,
)
from trivium.values import ItemKind, ItemOutcome, ItemRef, ItemState


def unavailable() -> UnavailableError:
    return UnavailableError(grpc.StatusCode.UNAVAILABLE, "nobody listens")


def block(text: str) -> str:
    return f"<memory>{text}</memory>"


def answer_to(text: str, *, found: bool = True) -> Retrieval:
    return retrieval(Segment(id="a", text=text), briefing=block(text)) if found else retrieval()


@dataclass
class FakeMemory:
    """Answers texts after `delay_s`, or after that of the text in `delays_s`.

    Attributes:
        opening: What happens to the next streams: None opens them, an error is raised.
        breaks_at: The number of the transcript at which a stream breaks.
        writes: What happens to the next writes: None stores, an error is raised.
        open_streams: The streams that are open now.
        sent: The transcripts of all streams, with the time at which each was read.
        timeouts_s: Of the search of each.
        filters: Of the streams.
    """

    delay_s: float = 0.02
    delays_s: Mapping[str, float] = field(default_factory=dict)
    opening: deque[TriviumError | None] = field(default_factory=deque)
    breaks_at: int | None = None
    finds: bool = True
    writes: deque[TriviumError | None] = field(default_factory=deque)
    rejects: bool = False
    open_streams: int = 0
    sent: list[tuple[float, Transcript]] = field(default_factory=list)
    timeouts_s: list[float] = field(default_factory=list)
    filters: list[Filter | None] = field(default_factory=list)
    stored: list[Segment] = field(default_factory=list)
    warmed: list[str] = field(default_factory=list)

    async def retrieve_stream(
        self,
        transcripts: AsyncIterator[Transcript],
        *,
        briefing: BriefingOptions | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> AsyncIterator[StreamedRetrieval]:
        """Answers the newest transcript, and the final one last, as the service does."""
        assert timeout is not None
        self.filters.append(options.get("filter"))
        self.open_streams += 1
        receiving: asyncio.Future[Transcript] | None = asyncio.ensure_future(anext(transcripts))
        searching: asyncio.Future[None] | None = None
        newest, number = Transcript(""), 0
        try:
            if self.opening and (error := self.opening.popleft()) is not None:
                raise error
            while True:
                waiting = [each for each in (receiving, searching) if each is not None]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if searching is not None and searching.done():
                    searching = None
                    yield StreamedRetrieval(
                        retrieval=answer_to(newest.text, found=self.finds),
                        transcript_number=number,
                        final=newest.final,
                    )
                    if newest.final:
                        return
                if receiving is not None and receiving.done():
                    newest, number = receiving.result(), number + 1
                    self.sent.append((asyncio.get_running_loop().time(), newest))
                    self.timeouts_s.append(newest.timeout or timeout)
                    if number == self.breaks_at:
                        raise unavailable()
                    receiving = None if newest.final else asyncio.ensure_future(anext(transcripts))
                    if searching is not None:
                        searching.cancel()
                    delay_s = self.delays_s.get(newest.text, self.delay_s)
                    searching = asyncio.ensure_future(asyncio.sleep(delay_s))
        finally:
            self.open_streams -= 1
            for task in (receiving, searching):
                if task is not None:
                    task.cancel()

    async def ingest(self, items: list[Item]) -> IngestResult:
        """Stores or fails as it is told."""
        await asyncio.sleep(self.delay_s)
        if self.writes and (error := self.writes.popleft()) is not None:
            raise error
        self.stored += [each for each in items if isinstance(each, Segment)]
        state = ItemState.REJECTED if self.rejects else ItemState.CREATED
        outcomes = tuple(
            ItemOutcome(index=place, item=ItemRef(ItemKind.SEGMENT, each.id), state=state)
            for place, each in enumerate(items)
        )
        return IngestResult(outcomes=outcomes, consistency_token="")

    async def warm(self, *, profile: str = "") -> tuple[WarmPart, ...]:
        """Is warm but for the graph."""
        if self.opening and (error := self.opening.popleft()) is not None:
            raise error
        self.warmed.append(profile)
        lost = WarmPart(part="graph", warm=False, reason="graph: refused", elapsed=NO_TIME)
        return (WarmPart(part="names", warm=True, reason="", elapsed=NO_TIME), lost)
