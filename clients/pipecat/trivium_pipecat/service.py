"""A frame processor that puts what is remembered into the context of a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, cast

from loguru import logger
from pipecat.frames.frames import (
    Frame,
    LLMContextAssistantTurnFrame,
    LLMContextFrame,
    LLMContextUserTurnFrame,
    MetricsFrame,
    StartFrame,
)
from pipecat.metrics.metrics import MetricsData
from pipecat.processors.aggregators.llm_context import (
    LLMContext,
    LLMContextMessage,
    LLMSpecificMessage,
    standard_message_text,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from trivium import AsyncClient, DeadlineError, Segment, TriviumError

RECALL_TIMEOUT_S = 0.08
"""An acceptable pause before an answer."""
WRITE_TIMEOUT_S = 5.0


class Outcome(StrEnum):
    """What became of a call of the memory."""

    FOUND = "found"
    NOTHING = "nothing"
    """It answered, and has nothing that fits."""
    LATE = "late"
    """It did not answer within the timeout."""
    FAILED = "failed"
    STORED = "stored"
    NOT_STORED = "not stored"


class MemoryMetricsData(MetricsData):  # type: ignore[misc]  # Pipecat is not always installed
    """A call of the memory: how it ended, and after how many seconds."""

    operation: Literal["recall", "store"]
    outcome: Outcome
    value: float


class TriviumMemoryService(FrameProcessor):  # type: ignore[misc]  # as above
    """Recalls before each answer, and stores each exchange after it.

    Its place is between the user aggregator and the language model:

        pipeline = Pipeline([
            transport.input(), stt, aggregators.user(), memory, llm, tts,
            transport.output(), aggregators.assistant(),
        ])

    The model gets a copy of the context that has one `<memory>` block before what the user said.
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
        self._timeout = timeout
        self._at_start = ""
        self._recalled: tuple[object, str] = (None, "")
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
                self._keep(self._user, frame.text, frame.timestamp)
            case LLMContextAssistantTurnFrame():
                self._keep(self._bot, frame.text, frame.timestamp)
                self._store_exchange()
        await self.push_frame(frame, direction)

    async def cleanup(self) -> None:
        """Stores what is left, and waits for it."""
        self._store_exchange()
        await asyncio.gather(*self._tasks)
        await super().cleanup()

    async def _prepare(self) -> None:
        """Connects, and recalls what is known before anybody has said anything."""
        self._at_start = await self._client.load_context()

    async def _with_memory(self, frame: LLMContextFrame) -> LLMContextFrame:
        messages = frame.context.get_messages()
        place = _last_of_user(messages)
        said = standard_message_text(messages[place]) if place is not None else ""
        block = await self._block(place, said) or self._at_start
        if not block:
            return frame
        return replace(frame, context=_with_block(frame.context, block, place))

    async def _block(self, place: int | None, said: str) -> str:
        """What is remembered about this turn; recalled once, also if a tool is called in it."""
        if not said:
            return ""
        if self._recalled[0] != (place, said):
            block, outcome = await self._recall(said)
            if outcome in (Outcome.LATE, Outcome.FAILED):
                return ""
            self._recalled = ((place, said), block)
        return self._recalled[1]

    async def _recall(self, said: str) -> tuple[str, Outcome]:
        """The only call that an answer waits for; raises no error of the memory."""
        started = time.monotonic()
        block = ""
        try:
            block = await self._client.briefing(said, timeout=self._timeout)
            outcome = Outcome.FOUND if block else Outcome.NOTHING
        except DeadlineError:
            outcome = Outcome.LATE
        except (TriviumError, ValueError) as error:
            logger.warning(f"{self}: no memory for this turn: {error}")
            outcome = Outcome.FAILED
        await self._measure("recall", outcome, started)
        return block, outcome

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
            outcome = Outcome.NOT_STORED if rejected else Outcome.STORED
        except (TriviumError, ValueError) as error:
            logger.warning(f"{self}: {len(turns)} turns were not stored: {error}")
            outcome = Outcome.NOT_STORED
        await self._measure("store", outcome, started)

    async def _measure(
        self, operation: Literal["recall", "store"], outcome: Outcome, started: float
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
        """Runs it beside the frames: an interruption does not cancel it, `cleanup` awaits it."""
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
