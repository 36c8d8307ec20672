"""The memory in what LiveKit alone does; `tests/clients/test_voice_bots.py` has the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.recalling_service import (
    PATIENCE_S,
    SYSTEM,
    WEDDING,
    WHEN,
    HangingService,
    RecallingService,
)
from tests.fakes.service import running
from trivium import AsyncClient

pytest.importorskip("livekit.agents", reason="`make test-integrations` installs LiveKit Agents")

from livekit.agents import Agent, llm

from tests.clients.livekit.bot import calling, messages_of, remembering
from trivium_livekit import TriviumMemory

pytestmark = pytest.mark.livekit


@pytest.fixture
def fake_service() -> Iterator[RecallingService]:
    with running(RecallingService()) as service:
        yield service


async def test_a_preemptive_generation_survives_with_its_memory(
    async_client: AsyncClient, fake_service: RecallingService
) -> None:
    fake_service.will_recall(WEDDING)
    async with remembering(async_client, session="call-1", budget=10) as call:
        given = await call.turn("When is the wedding?")
        await call.begins()
        await call.says("and the trip")
        await fake_service.until_searched("and the trip")
        items = [each.id for each in call.session.history.items if each.type == "message"]

    assert given == [[SYSTEM, ("developer", WEDDING), WHEN]]
    assert fake_service.asked() == ["When is the wedding?"]
    # That of the preemptive generation was the only search.
    assert fake_service.heard == ["When is the wedding?", "and the trip"]
    stored = [each.id for each in fake_service.ingested()[:2]]
    assert stored == [f"call-1/{id_}" for id_ in items]


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


async def test_the_context_that_is_given_is_not_changed(
    async_client: AsyncClient, fake_service: RecallingService
) -> None:
    memory = TriviumMemory(async_client, budget=10)
    fake_service.will_recall(WEDDING)
    given = llm.ChatContext([llm.ChatMessage(role="user", content=["When is the wedding?"])])

    # As after each tool of a turn.
    contexts = [await memory.in_context(given) for _ in range(2)]

    assert messages_of(given) == [WHEN]
    assert [messages_of(each) for each in contexts] == [[("developer", WEDDING), WHEN]] * 2
    assert fake_service.asked() == ["When is the wedding?"]


async def test_a_speculative_attempt_is_not_stored(
    async_client: AsyncClient, fake_service: RecallingService
) -> None:
    async with remembering(async_client, budget=10) as call:
        await call.begins()
        call.is_stable("When is the")
        await call.model_given()
        await call.turn("When is the wedding?")

    assert [text for _, text in fake_service.turns()] == ["When is the wedding?", "I see."]
    assert fake_service.asked() == ["When is the", "When is the wedding?"]


async def test_an_attempt_that_is_overtaken_cancels_its_recall() -> None:
    with running(HangingService()) as service:
        service.will_recall(WEDDING, WEDDING)
        client = AsyncClient(service.address, tenant="acme")
        async with client, remembering(client, budget=2 * PATIENCE_S) as call:
            await call.begins()
            call.is_stable("When is the")
            assert await asyncio.to_thread(service.was_asked.wait, PATIENCE_S)
            call.is_stable("When is the wedding?")
            assert await asyncio.to_thread(service.was_cancelled.wait, PATIENCE_S)
            given = await call.model_given()

    assert given == [SYSTEM, ("developer", WEDDING), WHEN]
