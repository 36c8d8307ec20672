"""The memory in what Pipecat alone does; `tests/clients/test_voice_bots.py` has the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.recalling_service import (
    DOWN,
    PATIENCE_S,
    WEDDING,
    HangingService,
    RecallingService,
)
from tests.fakes.service import running
from trivium import AsyncClient

pytest.importorskip("pipecat", reason="`make test-integrations` installs Pipecat")

from pipecat.frames.frames import LLMContextFrame
from pipecat.processors.aggregators.llm_context import LLMContext

from tests.clients.pipecat.bot import running as running_bot
from trivium_pipecat import TriviumMemoryService

pytestmark = pytest.mark.pipecat


@pytest.fixture
def memory(async_client: AsyncClient) -> TriviumMemoryService:
    return TriviumMemoryService(async_client, user="Nora", budget=10)


@pytest.fixture
def fake_service() -> Iterator[RecallingService]:
    with running(RecallingService()) as service:
        yield service


async def test_recalls_are_metrics(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    fake_service.will_recall(DOWN, WEDDING)
    async with running_bot(memory) as bot:
        await bot.hears("One?")
        await bot.hears("Two?")

    assert [each.outcome for each in bot.metrics.kept] == ["failed", "found"]


async def test_turn_continued_after_a_tool_is_recalled_once(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    fake_service.will_recall(WEDDING)
    async with running_bot(memory) as bot:
        await bot.hears("When is the wedding?")
        call = {"id": "1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
        bot.context.add_message({"role": "assistant", "content": "", "tool_calls": [call]})
        bot.context.add_message({"role": "tool", "content": "noon", "tool_call_id": "1"})
        await bot.runs_again()
        given = await bot.answers()

    roles = [role for role, _ in given.messages]
    assert roles == ["system", "developer", "user", "assistant", "assistant", "tool"]
    assert fake_service.asked() == ["When is the wedding?"]


async def test_tools_are_kept(memory: TriviumMemoryService, fake_service: RecallingService) -> None:
    fake_service.will_recall(WEDDING)
    context = LLMContext([{"role": "system", "content": "You are brief."}], tools=[clock])
    async with running_bot(memory, context) as bot:
        await bot.begins()
        await bot.ends("When is the wedding?")
        given = await bot.answers()

    assert given.frame.context is not bot.context
    assert given.frame.context.tools is bot.context.tools


async def test_speculative_turn_is_searched_for_once(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    provisional = LLMContext([{"role": "user", "content": "When is the wedding?"}])

    async with running_bot(memory) as bot:
        await bot.begins()
        await bot.worker.queue_frame(LLMContextFrame(provisional, speculation=True))
        await bot.answers()
        await bot.transcribed("When is the wedding?")
        await bot.says("and the trip")
        await fake_service.until_searched("When is the wedding? and the trip")

    assert fake_service.heard == ["When is the wedding? and the trip"]


async def test_a_speculative_turn_is_recalled_for_but_not_stored(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    fake_service.will_recall(WEDDING)
    provisional = LLMContext([{"role": "user", "content": "When is the"}])
    async with running_bot(memory) as bot:
        await bot.worker.queue_frame(LLMContextFrame(provisional, speculation=True))
        given = await bot.answers()

    assert given.frame.speculation
    assert given.messages == [("developer", WEDDING), ("user", "When is the")]
    assert "Nora" not in dict(fake_service.turns())


async def clock(params: Any) -> None:
    """Says what time it is."""


async def test_an_interruption_cancels_the_recall() -> None:
    with running(HangingService()) as service:
        async with AsyncClient(service.address, tenant="acme") as client:
            memory = TriviumMemoryService(client, budget=2 * PATIENCE_S)
            async with running_bot(memory) as bot:
                await bot.begins()
                await bot.ends("When is the")
                assert await asyncio.to_thread(service.was_asked.wait, PATIENCE_S)
                await bot.begins()
                assert await asyncio.to_thread(service.was_cancelled.wait, PATIENCE_S)
                await bot.ends("wedding?")
                given = await bot.answers()

    assert given.messages[-1] == ("user", "wedding?")
