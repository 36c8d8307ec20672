"""A frame processor that puts what is remembered into the context of a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, cast

from loguru import logger
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

from trivium import AsyncClient, Segment, TriviumError
from trivium.conversation import Opening, Recall, TurnEnd, TurnOutcome, words_of

RECALL_TIMEOUT_S = 0.08
"""An acceptable pause before an answer."""
WRITE_TIMEOUT_S = 5.0


class StoreOutcome(StrEnum):
    """How storing an exchange ended; `TurnOutcome` says it of a recall."""

    STORED = "stored"
    NOT_STORED = "not stored"


class MemoryMetricsData(MetricsData):  # type: ignore[misc]  # Pipecat is not always installed
    """A call of the memory: how it ended, and after how many seconds."""

    operation: Literal["recall", "store"]
    outcome: TurnOutcome | StoreOutcome
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
        """What follows is of another turn."""
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
    cancels the recall. A memory that is late or down delays an answer by `timeout` at most, and is
    counted: each call is a `MemoryMetricsData` in a `MetricsFrame`, if the pipeline has metrics.

    Args:
        client: A client of the user's tenant; whoever opened it closes it.
        session: The id of this conversation; its turns are stored as `{session}:{number}`.
        user: The name of the user, as the speaker of what is stored.
        bot: The name of the bot.
        timeout: For a recall, in seconds.
        **kwargs: For `FrameProcessor`.

    Attributes:
        listener: Hears what the user says. Without it, each turn waits for a search.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        session: str,
        user: str = "User",
        bot: str = "Bot",
        timeout: float = RECALL_TIMEOUT_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._client = client
        self._session = session
        self._user = user
        self._bot = bot
        self.listener = TranscriptListener(self._hear)
        self._recall = Recall(client, session=session, budget=timeout)
        self._opening = Opening()
        self._recalled: tuple[object, str] = (None, "")
        self._speculated = ""
        self._exchange: list[Segment] = []
        self._turns = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def can_generate_metrics(self) -> bool:
        """Whether it measures itself."""
        return True

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Passes every frame on; a context with what is remembered."""
        await super().process_frame(frame, direction)
        match frame:
            case StartFrame():
                self._start(self._prepare())
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
        await asyncio.gather(*self._tasks)
        await self._recall.close()
        await super().cleanup()

    async def _prepare(self) -> None:
        """Warms the service, and recalls what is known before anybody has said anything."""
        await self._recall.warm()
        self._opening.block = await self._client.load_context()

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
        blocks = [self._opening.for_turn((place, said)), await self._block(place, said)]
        block = "\n".join(filter(None, blocks))
        if not block:
            return frame
        return replace(frame, context=_with_block(frame.context, block, place))

    async def _block(self, place: int | None, said: str) -> str:
        """What is remembered about this turn; recalled once, also if a tool is called in it."""
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
        await self._measure("recall", end.outcome, started)
        return end

    def _keep(self, speaker: str, text: str, timestamp: str) -> None:
        self._turns += 1
        turn = Segment(
            id=f"{self._session}:{self._turns}",
            text=text,
            speaker=speaker,
            session=self._session,
            event_time=datetime.fromisoformat(timestamp) if timestamp else None,
        )
        self._exchange.append(turn)

    def _store_exchange(self) -> None:
        """Stores what was said since the last time; not earlier, or a turn would recall itself."""
        if self._exchange:
            self._start(self._store(self._exchange))
            self._exchange = []

    async def _store(self, turns: Sequence[Segment]) -> None:
        started = time.monotonic()
        try:
            rejected = (await self._client.ingest(turns, timeout=WRITE_TIMEOUT_S)).rejected
            outcome = StoreOutcome.NOT_STORED if rejected else StoreOutcome.STORED
        except (TriviumError, ValueError) as error:
            logger.warning(f"{self}: {len(turns)} turns were not stored: {error}")
            outcome = StoreOutcome.NOT_STORED
        await self._measure("store", outcome, started)

    async def _measure(
        self,
        operation: Literal["recall", "store"],
        outcome: TurnOutcome | StoreOutcome,
        started: float,
    ) -> None:
        if not self.metrics_enabled:
            return
        data = MemoryMetricsData(
            processor=self.name,
            operation=operation,
            outcome=outcome,
            value=time.monotonic() - started,
        )
        await self.push_frame(MetricsFrame(data=[data]))

    def _start(self, coroutine: Any) -> None:
        """Runs it next to the frames: an interruption does not cancel it, `cleanup` awaits it."""
        task = self.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


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
