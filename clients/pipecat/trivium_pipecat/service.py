"""A frame processor that puts what is remembered into the context of a turn."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from pipecat.frames.frames import (
    EagerTranscriptionFrame,
    Frame,
    InterimTranscriptionFrame,
    LLMContextAssistantTurnFrame,
    LLMContextFrame,
    LLMContextUserTurnFrame,
    MetricsFrame,
    StartFrame,
    TranscriptionFrame,
)
from pipecat.metrics.metrics import MetricsData
from pipecat.processors.aggregators.llm_context import (
    LLMContext,
    LLMContextMessage,
    LLMSpecificMessage,
    standard_message_text,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from trivium import AsyncClient, Filter
from trivium.conversation import (
    BUDGET_S,
    Counts,
    Opening,
    Recall,
    TurnEnd,
    TurnOutcome,
    one_block,
    words_of,
)


class MemoryMetricsData(MetricsData):  # type: ignore[misc]  # Pipecat is not always installed
    """A recall: how it ended, and after how many seconds."""

    outcome: TurnOutcome
    value: float


class TranscriptListener(FrameProcessor):  # type: ignore[misc]  # as above
    """Lets the memory search while the user speaks; passes every frame on.

    Its place is before the user aggregator, which keeps transcripts to itself.

    Args:
        heard: Called with all that was heard of the turn so far.
    """

    def __init__(self, heard: Callable[[str], None]) -> None:
        super().__init__()
        self._on_transcript = heard
        self._finals: list[str] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Passes every frame on; hears those with transcripts."""
        await super().process_frame(frame, direction)
        match frame:
            case InterimTranscriptionFrame() | EagerTranscriptionFrame():
                self._on_transcript(" ".join([*self._finals, frame.text]))
            case TranscriptionFrame():
                self._finals.append(frame.text)
                self._on_transcript(" ".join(self._finals))
        await self.push_frame(frame, direction)

    def turn_ended(self) -> None:
        """Ends the turn: later frames are of another one."""
        self._finals = []


class TriviumMemoryService(FrameProcessor):  # type: ignore[misc]  # as above
    """Recalls before each answer, and stores each exchange after it.

    Its place is between the user aggregator and the language model, and that of its `listener`
    before the user aggregator:

        pipeline = Pipeline([
            transport.input(), stt, memory.listener, aggregators.user(), memory, llm, tts,
            transport.output(), aggregators.assistant(),
        ])

    It searches for each interim transcript, so that the memory is there when the turn ends. The
    model gets a copy of the context that has the `<memory>` block before what the user said; in the
    first turn that of the start of the conversation, too.
    The context itself stays as it is, so the blocks of earlier turns are not in it. An interruption
    cancels the recall. A memory that is late or down delays an answer by `budget` at most, and is
    counted: each recall is a `MemoryMetricsData` in a `MetricsFrame`, if the pipeline has metrics.
    What is said while it is down is kept, and stored when it is back.

    Args:
        client: A client of the user's tenant; whoever opened it closes it.
        session: The name of this conversation; by default a new one. Its turns have ids of their
            own, even if an earlier conversation had the same name.
        user: The name of the user, as the speaker of what is stored.
        bot: The name of the bot.
        budget: How long an answer may wait for a recall, in seconds.
        profile: As in `AsyncClient.retrieve`, for the recall of a turn.
        limit: As in `AsyncClient.retrieve`, for the recall of a turn.
        filter: As in `AsyncClient.retrieve`, for the start of the conversation, too.
        **kwargs: For `FrameProcessor`.

    Attributes:
        listener: Hears what the user says. Without it, each turn waits for a search.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        session: str = "",
        user: str = "User",
        bot: str = "Bot",
        budget: float = BUDGET_S,
        profile: str = "",
        limit: int = 0,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._client = client
        self._filter = filter
        self._user = user
        self._bot = bot
        self.listener = TranscriptListener(self._hear)
        self._recall = Recall(
            client,
            session=session,
            budget=budget,
            profile=profile,
            limit=limit,
            filter=filter,
        )
        self._opening = Opening()
        self._recalled: tuple[object, str] = (None, "")
        self._speculated = ""
        self._exchange: list[tuple[str, str, datetime | None]] = []
        self._call = uuid.uuid4().hex[:12]
        self._turns = 0
        self._preparing: asyncio.Task[None] | None = None

    @property
    def counts(self) -> Counts:
        """The turns and the writes by outcome."""
        return self._recall.counts

    def can_generate_metrics(self) -> bool:
        """Whether it measures itself."""
        return True

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Passes every frame on; a context with what is remembered."""
        await super().process_frame(frame, direction)
        match frame:
            case StartFrame():
                self._preparing = self.create_task(self._prepare())
            case LLMContextFrame() if direction is FrameDirection.DOWNSTREAM:
                frame = await self._with_memory(frame)
            case LLMContextUserTurnFrame():
                self._end_turn()
                self._keep(self._user, frame.text, frame.timestamp)
            case LLMContextAssistantTurnFrame():
                self._keep(self._bot, frame.text, frame.timestamp)
                self._store_exchange()
        await self.push_frame(frame, direction)

    async def cleanup(self) -> None:
        """Stores what is left, and waits for it."""
        self._store_exchange()
        if self._preparing is not None:
            await self._preparing
        await self._recall.close()
        await super().cleanup()

    async def _prepare(self) -> None:
        """Warms the service, and recalls what is known before anybody has said anything."""
        await self._recall.warm()
        self._opening.block = await self._client.load_context(filter=self._filter)

    def _hear(self, so_far: str) -> None:
        """Searches while the user speaks, unless that was done for a speculative turn."""
        if words_of(so_far) != self._speculated:
            self._recall.heard(so_far)

    def _end_turn(self) -> None:
        self.listener.turn_ended()
        self._speculated = ""

    async def _with_memory(self, frame: LLMContextFrame) -> LLMContextFrame:
        messages = frame.context.get_messages()
        place = _last_of_user(messages)
        said = standard_message_text(messages[place]) if place is not None else ""
        if frame.speculation:
            # The final transcript, which follows, needs no search of its own.
            self._speculated = words_of(said)
        block = one_block(self._opening.for_turn((place, said)), await self._block(place, said))
        if not block:
            return frame
        return replace(frame, context=_with_block(frame.context, block, place))

    async def _block(self, place: int | None, said: str) -> str:
        """The recalled block for this turn; recalled once, also if a tool is called in it."""
        if not said:
            return ""
        if self._recalled[0] != (place, said):
            end = await self._ask(said)
            if end.outcome in (TurnOutcome.LATE, TurnOutcome.FAILED):
                return ""
            self._recalled = ((place, said), end.block)
        return self._recalled[1]

    async def _ask(self, said: str) -> TurnEnd:
        """The only call that an answer waits for; raises no error of the memory."""
        started = time.monotonic()
        end = await self._recall.end_turn(said)
        if self.metrics_enabled:
            data = MemoryMetricsData(
                processor=self.name, outcome=end.outcome, value=time.monotonic() - started
            )
            await self.push_frame(MetricsFrame(data=[data]))
        return end

    def _keep(self, speaker: str, text: str, timestamp: str) -> None:
        if text.strip():
            event_time = datetime.fromisoformat(timestamp) if timestamp else None
            self._exchange.append((speaker, text, event_time))

    def _store_exchange(self) -> None:
        """Stores what was said since the last time: while the bot speaks, nobody waits."""
        for speaker, text, event_time in self._exchange:
            self._turns += 1
            turn = f"{self._call}-{self._turns}"
            self._recall.said(speaker, text, turn=turn, event_time=event_time)
        self._exchange = []


def _last_of_user(messages: Sequence[LLMContextMessage]) -> int | None:
    """The place of the last message of the user; None if there is none."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if not isinstance(message, LLMSpecificMessage) and message.get("role") == "user":
            return place
    return None


def _with_block(context: LLMContext, block: str, place: int | None) -> LLMContext:
    """A copy of the context, with the block before the last message of the user."""
    messages = list(context.get_messages())
    # Pipecat sends it as a message of the user to models that have no such role.
    message = cast(LLMContextMessage, {"role": "developer", "content": block})
    messages.insert(len(messages) if place is None else place, message)
    return LLMContext(messages, tools=context.tools, tool_choice=context.tool_choice)
