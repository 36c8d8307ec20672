"""The memory in a real pipeline of Pipecat, whose ears, model and voice follow a script."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.recalling_service import (
    ANSWER,
    BOTH,
    DOWN,
    EXCHANGES,
    GOA,
    LATE,
    PATIENCE_S,
    SYSTEM,
    TRIP,
    WEDDING,
    WHEN,
    HangingService,
    RecallingService,
    WatchedClient,
    run_example,
)
from tests.fakes.service import running
from tests.fixtures.local_service import local_service
from trivium import AsyncClient, Filter
from trivium.v1.retrieval_service_pb2 import WarmRequest

pytest.importorskip("pipecat", reason="`make test-integrations` installs Pipecat")

from pipecat.frames.frames import LLMContextFrame
from pipecat.processors.aggregators.llm_context import LLMContext

from tests.clients.pipecat.bot import messages_of
from tests.clients.pipecat.bot import running as running_bot
from trivium_pipecat import TriviumMemoryService

pytestmark = pytest.mark.pipecat


@pytest.fixture
def memory(async_client: AsyncClient) -> TriviumMemoryService:
    return TriviumMemoryService(async_client, session="call-1", user="Nora", budget=10)


@pytest.fixture
def fake_service() -> Iterator[RecallingService]:
    with running(RecallingService()) as service:
        yield service


async def test_a_block_is_replaced_and_the_history_stays_clean(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    fake_service.will_recall(WEDDING, GOA)
    async with running_bot(memory) as bot:
        first = await bot.hears("When is the wedding?")
        second = await bot.hears("And the trip?")
        history = messages_of(bot.context)
        spoken = bot.voice.said

    assert fake_service.asked() == ["When is the wedding?", "And the trip?"]
    assert first.messages == [SYSTEM, ("developer", WEDDING), WHEN]
    assert second.messages == [SYSTEM, WHEN, ANSWER, ("developer", GOA), TRIP]
    assert history == [SYSTEM, WHEN, ANSWER, TRIP, ANSWER]
    assert spoken == ["I see.", "I see."]


async def test_memory_is_found_before_the_turn_ends() -> None:
    with running(HangingService()) as service:
        service.early["when is the wedding"] = WEDDING
        client = WatchedClient(service.address)
        memory = TriviumMemoryService(client, session="call-1", budget=2 * PATIENCE_S)
        async with client, running_bot(memory) as bot:
            await bot.begins_to_speak()
            await bot.says("when is the wedding")
            await asyncio.wait_for(client.taken.wait(), PATIENCE_S)
            # The service never answers the turn itself.
            await bot.ends("When is the wedding?")
            given = await bot.answers()

    assert ("developer", WEDDING) in given.messages
    assert [each.outcome for each in bot.metrics.kept] == ["found"]


async def test_whole_turn_is_searched_for_without_others(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    async with running_bot(memory) as bot:
        for first, second in (("When is it?", "The wedding?"), ("And where?", "In Goa?")):
            await bot.begins_to_speak()
            await bot.transcribed(first)
            await fake_service.until_searched(first)
            await bot.says(second)
            await fake_service.until_searched(f"{first} {second}")
            await bot.ends(second)
            await bot.answers()

    assert fake_service.heard == [
        "When is it?",
        "When is it? The wedding?",
        "And where?",
        "And where? In Goa?",
    ]


async def test_the_service_is_warmed_at_the_start(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    async with running_bot(memory):
        assert memory._preparing is not None
        await asyncio.wait_for(memory._preparing, PATIENCE_S)

    assert [each for each in fake_service.requests if isinstance(each, WarmRequest)]


async def test_an_exchange_is_stored_once_after_it(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    async with running_bot(memory) as bot:
        await bot.hears("When is the wedding?")
        await bot.hears("And the trip?")

    turns = fake_service.written()
    assert [turn[1:] for turn in turns] == EXCHANGES
    assert all(turn[0].startswith("call-1/") for turn in turns)


async def test_second_call_of_a_name_replaces_no_turn(
    async_client: AsyncClient, fake_service: RecallingService
) -> None:
    for _ in range(2):
        async with running_bot(TriviumMemoryService(async_client, session="call-1")) as bot:
            await bot.hears("When is the wedding?")

    ids = [turn[0] for turn in fake_service.written()]
    assert len(ids) == len(set(ids)) == 4


async def test_arguments_are_those_of_each_recall(
    async_client: AsyncClient, fake_service: RecallingService
) -> None:
    memory = TriviumMemoryService(
        async_client, profile="annie", limit=3, filter=Filter(kinds=["turn"]), budget=10
    )
    async with running_bot(memory) as bot:
        await bot.hears("When is the wedding?")

    (asked,) = fake_service.recalls()
    assert (asked.profile, asked.limit, list(asked.filter.kinds)) == ("annie", 3, ["turn"])
    assert len(asked.filter.none_of.sessions[0]) > 20


async def test_bot_goes_on_and_counts_missing_memory(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    fake_service.will_recall(DOWN, LATE, "", WEDDING)
    fake_service.will_answer("Ingest", DOWN)
    async with running_bot(memory) as bot:
        given = [await bot.hears(text) for text in ("One?", "Two?", "Three?", "Four?")]
    outcomes = [str(each.outcome) for each in bot.metrics.kept]

    assert ["developer" in dict(each.messages) for each in given] == [False, False, False, True]
    assert outcomes == ["failed", "late", "nothing", "found"]
    assert (memory.counts.written, memory.counts.write_retries) == (8, 1)


async def test_memory_at_start_is_in_the_first_turn(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    fake_service.at_start = GOA
    fake_service.will_recall(WEDDING, "")
    async with running_bot(memory) as bot:
        assert memory._preparing is not None
        await asyncio.wait_for(memory._preparing, PATIENCE_S)
        first = await bot.hears("Hello!")
        second = await bot.hears("When is the wedding?")

    assert first.messages == [SYSTEM, ("developer", BOTH), ("user", "Hello!")]
    assert "developer" not in dict(second.messages)


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
        given = await bot.hears("When is the wedding?")

    assert given.frame.context is not bot.context
    assert given.frame.context.tools is bot.context.tools


async def test_speculative_turn_is_searched_for_once(
    memory: TriviumMemoryService, fake_service: RecallingService
) -> None:
    provisional = LLMContext([{"role": "user", "content": "When is the wedding?"}])

    async with running_bot(memory) as bot:
        await bot.begins_to_speak()
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
    assert [turn for turn in fake_service.written() if turn[1] == "Nora"] == []


async def clock(params: Any) -> None:
    """Says what time it is."""


async def test_an_interruption_cancels_the_recall() -> None:
    with running(HangingService()) as service:
        async with AsyncClient(service.address, tenant="acme") as client:
            memory = TriviumMemoryService(client, session="call-1", budget=2 * PATIENCE_S)
            async with running_bot(memory) as bot:
                await bot.begins_to_speak()
                await bot.ends("When is the")
                assert await asyncio.to_thread(service.was_asked.wait, PATIENCE_S)
                await bot.begins_to_speak()
                assert await asyncio.to_thread(service.was_cancelled.wait, PATIENCE_S)
                await bot.ends("wedding?")
                given = await bot.answers()

    assert given.messages[-1] == ("user", "wedding?")


@pytest.mark.postgres
@pytest.mark.neo4j
async def test_turn_of_a_call_is_recalled_in_the_next(postgres_dsn: str, neo4j_uri: str) -> None:
    async with local_service(postgres_dsn, neo4j_uri) as client:

        def of_call(name: str) -> TriviumMemoryService:
            return TriviumMemoryService(client, session=name, user="Nora", budget=10)

        async with running_bot(of_call("call-1")) as bot:
            await bot.hears("The wedding is on the eighth.")
        async with running_bot(of_call("call-2")) as bot:
            given = await bot.hears("When is the wedding?")
        stored = {each.id: each.speaker async for each in client.list_segments()}

    assert 'Nora said: "The wedding is on the eighth."' in dict(given.messages)["developer"]
    assert sorted((id_.partition("/")[0], speaker) for id_, speaker in stored.items()) == [
        (call, speaker) for call in ("call-1", "call-2") for speaker in ("Bot", "Nora")
    ]


async def test_the_example_runs(fake_service: RecallingService) -> None:
    done = await run_example(fake_service, "pipecat_bot.py")

    assert "user: When is the wedding?" in done.stdout
