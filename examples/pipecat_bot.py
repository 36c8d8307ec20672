"""A bot in text mode, whose pipeline is that of a voice bot.

    python examples/pipecat_bot.py --tenant alice

Each line that you type is a turn, as if speech recognition had heard it. Replace `Model` by a
service of Pipecat, and put a transport, STT and TTS around it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import uuid

from loguru import logger
from pipecat.frames.frames import (
    EndFrame,
    Frame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TranscriptionFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from trivium import AsyncClient
from trivium_pipecat import TriviumMemoryService


class Model(FrameProcessor):  # type: ignore[misc]
    """Stands for a language model: prints what it would be sent, and says "I see."."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Answers a context."""
        await super().process_frame(frame, direction)
        if not isinstance(frame, LLMContextFrame):
            await self.push_frame(frame, direction)
            return
        for message in frame.context.get_messages():
            print(f"  {message['role']}: {message['content']}")
        for answer in (
            LLMFullResponseStartFrame(),
            LLMTextFrame("I see."),
            LLMFullResponseEndFrame(),
        ):
            await self.push_frame(answer)


async def converse(address: str, tenant: str, user: str) -> None:
    """Runs the conversation until the input ends."""
    async with AsyncClient(address, tenant=tenant) as client:
        memory = TriviumMemoryService(client, session=f"session-{uuid.uuid4()}", user=user)
        aggregators = LLMContextAggregatorPair(
            LLMContext([{"role": "system", "content": "You are warm and brief."}]),
            user_params=LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies()),
        )
        answered = asyncio.Event()

        @aggregators.assistant().event_handler("on_assistant_turn_stopped")  # type: ignore[untyped-decorator]
        async def on_assistant_turn_stopped(*_: object) -> None:
            answered.set()

        worker = PipelineWorker(
            Pipeline(
                [memory.listener, aggregators.user(), memory, Model(), aggregators.assistant()]
            ),
            params=PipelineParams(enable_metrics=True),
        )
        runner = WorkerRunner()
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            answered.clear()
            heard = TranscriptionFrame(text=line, user_id=user, timestamp="")
            await worker.queue_frames(
                [ProposedUserStartedSpeakingFrame(), heard, ProposedUserStoppedSpeakingFrame()]
            )
            await answered.wait()
        await worker.queue_frame(EndFrame())
        await running


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="A bot with a memory, in text mode.")
    parser.add_argument("--address", default="127.0.0.1:9000")
    parser.add_argument("--tenant", default="sample")
    parser.add_argument("--user", default="Nora")
    given = parser.parse_args()
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    asyncio.run(converse(given.address, given.tenant, given.user))


if __name__ == "__main__":
    main()
