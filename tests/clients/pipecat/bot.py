"""A bot in Pipecat whose ears, model and voice follow a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InterimTranscriptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMRunFrame,
    LLMTextFrame,
    MetricsFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from tests.clients.recalling_service import PATIENCE_S, Messages
from trivium import AsyncClient
from trivium_pipecat import MemoryMetricsData, TriviumMemoryService

SAMPLE_RATE = 16_000


def messages_of(context: LLMContext) -> Messages:
    return [(each["role"], each["content"]) for each in context.get_messages()]


@dataclass(frozen=True)
class Given:
    """What the model was given, and its messages at that time."""

    frame: LLMContextFrame
    messages: Messages


class ScriptedModel(FrameProcessor):  # type: ignore[misc]
    """Gives the same answer each time; hands out what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: asyncio.Queue[Given] = asyncio.Queue()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if not isinstance(frame, LLMContextFrame):
            await self.push_frame(frame, direction)
            return
        self.given.put_nowait(Given(frame, messages_of(frame.context)))
        await self.push_frame(LLMFullResponseStartFrame())
        await self.push_frame(LLMTextFrame("I see."))
        await self.push_frame(LLMFullResponseEndFrame())


class ScriptedVoice(TTSService):  # type: ignore[misc]
    """Says everything in ten milliseconds of silence; keeps what it said."""

    def __init__(self) -> None:
        super().__init__(
            push_start_frame=True,
            push_stop_frames=True,
            sample_rate=SAMPLE_RATE,
            settings=TTSSettings(model=None, voice=None, language=None),
        )
        self.said: list[str] = []

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        self.said.append(text)
        silence = bytes(2 * SAMPLE_RATE // 100)
        yield TTSAudioRawFrame(silence, SAMPLE_RATE, 1, context_id=context_id)


class MetricsKeeper(FrameProcessor):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[MemoryMetricsData] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, MetricsFrame):
            self.kept += [each for each in frame.data if isinstance(each, MemoryMetricsData)]
        await self.push_frame(frame, direction)


@dataclass
class Bot:
    """A running bot; `context` is its history."""

    memory: TriviumMemoryService
    worker: PipelineWorker
    context: LLMContext
    model: ScriptedModel
    voice: ScriptedVoice
    metrics: MetricsKeeper
    answered: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def begins(self) -> None:
        await self.worker.queue_frame(ProposedUserStartedSpeakingFrame())

    async def says(self, so_far: str) -> None:
        interim = InterimTranscriptionFrame(text=so_far, user_id="nora", timestamp="")
        await self.worker.queue_frame(interim)

    async def transcribed(self, text: str) -> None:
        heard = TranscriptionFrame(text=text, user_id="nora", timestamp="")
        await self.worker.queue_frame(heard)

    async def ends(self, text: str) -> None:
        await self.transcribed(text)
        await self.worker.queue_frame(ProposedUserStoppedSpeakingFrame())

    async def runs_again(self) -> None:
        """As after a tool was called."""
        await self.worker.queue_frame(LLMRunFrame())

    async def answers(self) -> Given:
        given = await asyncio.wait_for(self.model.given.get(), PATIENCE_S)
        await asyncio.wait_for(self.answered.get(), PATIENCE_S)
        return given

    async def given(self) -> Messages:
        return (await self.answers()).messages

    async def hears(self, text: str) -> Messages:
        await self.begins()
        await self.ends(text)
        return await self.given()

    def history(self) -> Messages:
        return messages_of(self.context)


@asynccontextmanager
async def running(
    memory: TriviumMemoryService, context: LLMContext | None = None
) -> AsyncIterator[Bot]:
    """The bot until the end of the block, when its pipeline has ended in good order."""
    context = context or LLMContext([{"role": "system", "content": "You are brief."}])
    aggregators = LLMContextAggregatorPair(
        context,
        user_params=LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies()),
    )
    model, voice, metrics = ScriptedModel(), ScriptedVoice(), MetricsKeeper()
    before = [memory.listener, aggregators.user(), memory]
    worker = PipelineWorker(
        Pipeline([*before, model, voice, metrics, aggregators.assistant()]),
        params=PipelineParams(enable_metrics=True),
        cancel_on_idle_timeout=False,
        enable_rtvi=False,
    )
    bot = Bot(memory, worker, context, model, voice, metrics)
    started = asyncio.Event()

    @worker.event_handler("on_pipeline_started")  # type: ignore[untyped-decorator]
    async def on_pipeline_started(*_: Any) -> None:
        started.set()

    @aggregators.assistant().event_handler("on_assistant_turn_stopped")  # type: ignore[untyped-decorator]
    async def on_assistant_turn_stopped(_: Any, message: Any) -> None:
        bot.answered.put_nowait(message.content)

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    try:
        await asyncio.wait_for(started.wait(), PATIENCE_S)
        yield bot
    finally:
        await worker.queue_frame(EndFrame())
        await asyncio.wait_for(running, PATIENCE_S)


@asynccontextmanager
async def remembering(client: AsyncClient, **options: Any) -> AsyncIterator[Bot]:
    async with running(TriviumMemoryService(client, **options)) as bot:
        yield bot
