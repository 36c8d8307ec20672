"""The memory in real bots of Pipecat and LiveKit, whose ears, model and voice follow a script."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
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
    VoiceBot,
    WatchedClient,
    run_example,
)
from tests.fakes.service import running
from tests.fixtures.local_service import local_service
from trivium import AsyncClient, Filter
from trivium.v1.retrieval_service_pb2 import WarmRequest

Call = AbstractAsyncContextManager[VoiceBot]
"""A bot until the end of a block."""
Remembering = Callable[..., Call]
"""Makes a call of a client and the arguments of the memory."""


FRAMEWORKS = [name for name in ("pipecat", "livekit") if importlib.util.find_spec(name)]
if not FRAMEWORKS:
    pytest.skip("`make test-integrations` installs Pipecat and LiveKit", allow_module_level=True)


@pytest.fixture(
    params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in FRAMEWORKS]
)
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def remembering(framework: str) -> Remembering:
    bot: Any = importlib.import_module(f"tests.clients.{framework}.bot")
    return bot.remembering  # type: ignore[no-any-return]


@pytest.fixture
def fake_service() -> Iterator[RecallingService]:
    with running(RecallingService()) as service:
        yield service


@pytest.fixture
def call(remembering: Remembering, async_client: AsyncClient) -> Call:
    return remembering(async_client, session="call-1", user="Nora", budget=10)


async def test_a_block_is_replaced_and_the_history_stays_clean(
    call: Call, fake_service: RecallingService
) -> None:
    fake_service.will_recall(WEDDING, GOA)
    async with call as bot:
        first = await bot.hears("When is the wedding?")
        second = await bot.hears("And the trip?")
        history = [each for each in bot.history() if each != SYSTEM]

    assert fake_service.asked() == ["When is the wedding?", "And the trip?"]
    assert first == [SYSTEM, ("developer", WEDDING), WHEN]
    assert second == [SYSTEM, WHEN, ANSWER, ("developer", GOA), TRIP]
    assert history == [WHEN, ANSWER, TRIP, ANSWER]
    assert bot.voice.said == ["I see.", "I see."]


async def test_memory_is_found_before_the_turn_ends(remembering: Remembering) -> None:
    with running(HangingService()) as service:
        service.early["when is the wedding"] = WEDDING
        client = WatchedClient(service.address)
        async with client, remembering(client, session="call-1", budget=2 * PATIENCE_S) as bot:
            await bot.begins()
            await bot.says("when is the wedding")
            await asyncio.wait_for(client.taken.wait(), PATIENCE_S)
            # The service never answers the turn itself.
            await bot.ends("When is the wedding?")
            given = await bot.given()

    assert ("developer", WEDDING) in given
    assert bot.memory.counts.ready == 1


async def test_whole_turn_is_searched_for_without_others(
    call: Call, fake_service: RecallingService
) -> None:
    async with call as bot:
        for first, second in (("When is it?", "The wedding?"), ("And where?", "In Goa?")):
            await bot.begins()
            await bot.transcribed(first)
            await fake_service.until_searched(first)
            await bot.says(second)
            await fake_service.until_searched(f"{first} {second}")
            await bot.ends(second)
            await bot.given()

    assert fake_service.heard == [
        "When is it?",
        "When is it? The wedding?",
        "And where?",
        "And where? In Goa?",
    ]


async def test_the_service_is_warmed_at_the_start(
    call: Call, fake_service: RecallingService
) -> None:
    async with call:
        pass

    assert fake_service.sent(WarmRequest)


async def test_an_exchange_is_stored_once_after_it(
    remembering: Remembering, async_client: AsyncClient, fake_service: RecallingService
) -> None:
    for _ in range(2):
        async with remembering(async_client, session="call-1", user="Nora", budget=10) as bot:
            await bot.hears("When is the wedding?")
            await bot.hears("And the trip?")

    assert fake_service.turns() == EXCHANGES * 2
    ids = [each.id for each in fake_service.ingested()]
    assert {id_.partition("/")[0] for id_ in ids} == {"call-1"}
    # A second call of this name replaces no turn of the first.
    assert len(set(ids)) == 8


async def test_arguments_are_those_of_each_recall(
    remembering: Remembering, async_client: AsyncClient, fake_service: RecallingService
) -> None:
    options: dict[str, Any] = {"profile": "annie", "limit": 3, "filter": Filter(kinds=["turn"])}
    async with remembering(async_client, budget=10, **options) as bot:
        await bot.hears("When is the wedding?")

    (asked,) = fake_service.recalls()
    assert (asked.profile, asked.limit, list(asked.filter.kinds)) == ("annie", 3, ["turn"])
    assert len(asked.filter.none_of.sessions[0]) > 20


async def test_bot_goes_on_and_counts_missing_memory(
    call: Call, fake_service: RecallingService
) -> None:
    fake_service.will_recall(DOWN, LATE, "", WEDDING)
    fake_service.will_answer("Ingest", DOWN)
    async with call as bot:
        given = [await bot.hears(text) for text in ("One?", "Two?", "Three?", "Four?")]

    assert ["developer" in dict(each) for each in given] == [False, False, False, True]
    counts = bot.memory.counts
    assert (counts.failed, counts.late, counts.turns) == (1, 1, 4)
    assert (counts.written, counts.write_retries) == (8, 1)


async def test_memory_at_start_is_in_the_first_turn(
    remembering: Remembering, fake_service: RecallingService
) -> None:
    fake_service.at_start = GOA
    fake_service.will_recall(WEDDING, "")
    client = WatchedClient(fake_service.address)
    async with client, remembering(client, budget=10) as bot:
        await asyncio.wait_for(client.loaded.wait(), PATIENCE_S)
        first = await bot.hears("Hello!")
        second = await bot.hears("When is the wedding?")

    assert first == [SYSTEM, ("developer", BOTH), ("user", "Hello!")]
    assert "developer" not in dict(second)


@pytest.mark.postgres
@pytest.mark.neo4j
async def test_turn_of_a_call_is_recalled_in_the_next(
    remembering: Remembering, postgres_dsn: str, neo4j_uri: str
) -> None:
    async with local_service(postgres_dsn, neo4j_uri) as client:
        async with remembering(client, session="call-1", user="Nora", budget=10) as bot:
            await bot.hears("The wedding is on the eighth.")
        async with remembering(client, session="call-2", user="Nora", budget=10) as bot:
            given = await bot.hears("When is the wedding?")
        stored = {each.id: each.speaker async for each in client.list_segments()}

    assert 'Nora said: "The wedding is on the eighth."' in dict(given)["developer"]
    assert sorted((id_.partition("/")[0], speaker) for id_, speaker in stored.items()) == [
        (call, speaker) for call in ("call-1", "call-2") for speaker in ("Bot", "Nora")
    ]


async def test_the_example_runs(framework: str, fake_service: RecallingService) -> None:
    name = {"pipecat": "pipecat_bot.py", "livekit": "livekit_agent.py"}[framework]

    done = await run_example(fake_service, name)

    said = {"pipecat": "user: When is the wedding?", "livekit": f"developer: {WEDDING}"}
    assert said[framework] in done.stdout
    if framework == "livekit":
        assert done.stderr == ""  # nothing that a reader would have to understand
