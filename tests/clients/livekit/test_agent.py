"""The memory in a real session of LiveKit Agents, whose ears, model and voice follow a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
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

pytest.importorskip("livekit.agents", reason="`make test-integrations` installs LiveKit Agents")

from livekit.agents import Agent, llm, stt

from tests.clients.livekit.call import Messages, calling, messages_of
from trivium_livekit import TriviumAgent, TriviumMemory

pytestmark = pytest.mark.livekit


@pytest.fixture
def fake_service() -> Iterator[RecallingService]:
    with running(RecallingService()) as service:
        yield service


@pytest.fixture
async def memory(async_client: AsyncClient) -> AsyncIterator[TriviumMemory]:
    memory = TriviumMemory(async_client, session="call-1", user="Nora", budget=10)
    yield memory
    await memory.aclose()


def agent_with(memory: TriviumMemory) -> Agent:
    return TriviumAgent(memory=memory, instructions="You are brief.")


async def test_a_preemptive_generation_survives_with_its_memory(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    fake_service.will_recall(WEDDING)
    async with calling(agent_with(memory)) as call:
        given = await call.turn("When is the wedding?")

    assert given == [[SYSTEM, ("developer", WEDDING), WHEN]]
    assert fake_service.asked() == ["When is the wedding?"]


async def test_memory_is_found_before_the_turn_ends() -> None:
    with running(HangingService()) as service:
        service.early["when is the wedding"] = WEDDING
        async with WatchedClient(service.address) as client:
            memory = TriviumMemory(client, session="call-1", budget=2 * PATIENCE_S)
            async with calling(agent_with(memory)) as call:
                memory.attach(call.session)
                call.hears(stt.SpeechEventType.START_OF_SPEECH)
                call.says("when is the wedding")
                await asyncio.wait_for(client.taken.wait(), PATIENCE_S)
                # The service never answers the turn itself.
                await call.ends("When is the wedding?")
                given = await call.given()
            await memory.aclose()

    assert ("developer", WEDDING) in given
    assert memory.counts.ready == 1


async def test_preemptive_generation_is_searched_for_once(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    async with calling(agent_with(memory)) as call:
        memory.attach(call.session)
        await call.turn("When is the wedding?")
        call.hears(stt.SpeechEventType.START_OF_SPEECH)
        call.says("and the trip")
        await fake_service.until_searched("and the trip")

    assert fake_service.heard == ["When is the wedding?", "and the trip"]


async def test_whole_turn_is_searched_for_without_others(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    async with calling(agent_with(memory)) as call:
        memory.attach(call.session)
        await call.turn("Hello!")
        call.hears(stt.SpeechEventType.START_OF_SPEECH)
        call.hears(stt.SpeechEventType.FINAL_TRANSCRIPT, "When is it?")
        await fake_service.until_searched("When is it?")
        call.says("the wedding")
        await fake_service.until_searched("When is it? the wedding")

    assert fake_service.heard == ["Hello!", "When is it?", "When is it? the wedding"]


async def test_the_service_is_warmed_when_the_memory_is_attached(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    async with calling(agent_with(memory)) as call:
        memory.attach(call.session)
        await memory.aclose()

    assert [each for each in fake_service.requests if isinstance(each, WarmRequest)]


class NaiveAgent(Agent):  # type: ignore[misc]
    """Recalls where LiveKit's documentation puts retrieval: at the end of the turn."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(instructions="You are brief.")
        self._client = client

    async def on_user_turn_completed(self, turn_ctx: Any, new_message: Any) -> None:
        block = await self._client.briefing(new_message.text_content)
        turn_ctx.add_message(role="developer", content=block)


async def test_at_the_end_of_the_turn_the_preemptive_generation_is_lost(
    async_client: AsyncClient, fake_service: RecallingService
) -> None:
    fake_service.will_recall(WEDDING)
    async with calling(NaiveAgent(async_client)) as call:
        discarded, used = await call.turn("When is the wedding?")

    assert ("developer", WEDDING) not in discarded
    assert ("developer", WEDDING) in used


async def test_a_block_is_replaced_and_the_history_stays_clean(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    fake_service.will_recall(WEDDING, GOA)
    async with calling(agent_with(memory)) as call:
        await call.turn("When is the wedding?")
        (second,) = await call.turn("And the trip?")
        history = messages_of(call.session.history)
        spoken = call.voice.said

    assert second == [SYSTEM, WHEN, ANSWER, ("developer", GOA), TRIP]
    assert [role for role, _ in history] == ["user", "assistant", "user", "assistant"]
    assert spoken == ["I see.", "I see."]


async def test_the_context_that_is_given_is_not_changed(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    fake_service.will_recall(WEDDING)
    given = llm.ChatContext([llm.ChatMessage(role="user", content=["When is the wedding?"])])

    # As after each tool of a turn.
    contexts = [await memory.in_context(given) for _ in range(2)]

    assert messages_of(given) == [WHEN]
    assert [messages_of(each) for each in contexts] == [[("developer", WEDDING), WHEN]] * 2
    assert fake_service.asked() == ["When is the wedding?"]


async def test_an_exchange_is_stored_once_after_it(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    async with calling(agent_with(memory)) as call:
        memory.attach(call.session)
        await call.turn("When is the wedding?")
        await call.turn("And the trip?")
        ids = [f"call-1/{item.id}" for item in call.session.history.items if item.type == "message"]
    await memory.aclose()

    stored = fake_service.written()
    assert [turn[1:] for turn in stored] == EXCHANGES
    assert [turn[0] for turn in stored] == ids


async def test_arguments_are_those_of_each_recall(
    async_client: AsyncClient, fake_service: RecallingService
) -> None:
    memory = TriviumMemory(
        async_client, profile="annie", limit=3, filter=Filter(kinds=["turn"]), budget=10
    )
    async with calling(agent_with(memory)) as call:
        await call.turn("When is the wedding?")
    await memory.aclose()

    (asked,) = fake_service.recalls()
    assert (asked.profile, asked.limit, list(asked.filter.kinds)) == ("annie", 3, ["turn"])
    assert len(asked.filter.none_of.sessions[0]) > 20


async def test_a_speculative_attempt_is_not_stored(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    async with calling(agent_with(memory)) as call:
        memory.attach(call.session)
        await call.begins("When is the")
        await call.given()
        await call.turn("When is the wedding?")
    await memory.aclose()

    texts = [turn[2] for turn in fake_service.written()]
    assert texts == ["When is the wedding?", "I see."]
    assert fake_service.asked() == ["When is the", "When is the wedding?"]


async def test_agent_goes_on_and_counts_missing_memory(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    fake_service.will_recall(DOWN, LATE, "", WEDDING)
    fake_service.will_answer("Ingest", DOWN)
    async with calling(agent_with(memory)) as call:
        memory.attach(call.session)
        given = [await call.turn(text) for text in ("One?", "Two?", "Three?", "Four?")]
    await memory.aclose()

    assert ["developer" in dict(each[-1]) for each in given] == [False, False, False, True]
    counts = memory.counts
    assert (counts.failed, counts.late, counts.turns) == (1, 1, 4)
    assert (counts.written, counts.write_retries) == (8, 1)


async def test_memory_at_start_is_in_the_first_turn(
    memory: TriviumMemory, fake_service: RecallingService
) -> None:
    fake_service.at_start = GOA
    fake_service.will_recall(WEDDING, "")
    async with calling(agent_with(memory)) as call:
        memory.attach(call.session)
        await asyncio.wait_for(memory.aclose(), PATIENCE_S)
        (first,) = await call.turn("Hello!")
        (second,) = await call.turn("When is the wedding?")

    assert first == [SYSTEM, ("developer", BOTH), ("user", "Hello!")]
    assert "developer" not in dict(second)


async def test_an_attempt_that_is_overtaken_cancels_its_recall() -> None:
    with running(HangingService()) as service:
        service.will_recall(WEDDING, WEDDING)
        async with AsyncClient(service.address, tenant="acme") as client:
            memory = TriviumMemory(client, session="call-1", budget=2 * PATIENCE_S)
            async with calling(agent_with(memory)) as call:
                await call.begins("When is the")
                assert await asyncio.to_thread(service.was_asked.wait, PATIENCE_S)
                call.hears(stt.SpeechEventType.PREFLIGHT_TRANSCRIPT, "When is the wedding?")
                assert await asyncio.to_thread(service.was_cancelled.wait, PATIENCE_S)
                given = await call.given()

    assert given == [SYSTEM, ("developer", WEDDING), WHEN]


@pytest.mark.postgres
@pytest.mark.neo4j
async def test_turn_of_a_call_is_recalled_in_the_next(postgres_dsn: str, neo4j_uri: str) -> None:
    async with local_service(postgres_dsn, neo4j_uri) as client:

        async def said_in(name: str, text: str) -> Messages:
            memory = TriviumMemory(client, session=name, user="Nora", budget=10)
            async with calling(agent_with(memory)) as call:
                memory.attach(call.session)
                given = await call.turn(text)
            await memory.aclose()
            return given[-1]

        await said_in("call-1", "The wedding is on the eighth.")
        given = await said_in("call-2", "When is the wedding?")
        speakers = [each.speaker async for each in client.list_segments()]

    assert 'Nora said: "The wedding is on the eighth."' in dict(given)["developer"]
    assert sorted(speakers) == ["Bot", "Bot", "Nora", "Nora"]


async def test_the_example_runs(fake_service: RecallingService) -> None:
    done = await run_example(fake_service, "livekit_agent.py")

    assert done.stderr == ""  # nothing that a reader of the example would have to understand
    assert f"developer: {WEDDING}" in done.stdout
