from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from types import ModuleType

import grpc
import pytest

from tests.fakes.service import Failure, FakeService
from trivium import AsyncClient
from trivium.v1.retrieval_service_pb2 import RetrieveResponse, RetrieveStreamResponse

EXAMPLE = Path(__file__).parents[4] / "examples/bot.py"


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bot_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bot_example = load_example()


def recalled(text: str) -> RetrieveStreamResponse:
    memory = RetrieveResponse(briefing=f"<memory>{text}</memory>")
    return RetrieveStreamResponse(retrieved=memory, request_number=1, final=True)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is late, however busy the machine is."""
    monkeypatch.setattr(bot_example, "Recall", partial(bot_example.Recall, budget=60))


@pytest.mark.usefixtures("unhurried")
async def test_bot_puts_its_memory_into_the_prompt(
    async_client: AsyncClient, fake_service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_service.will_answer("RetrieveStream", recalled("the eighth"))
    bot = bot_example.Bot(async_client, "Nora")

    await bot.warm_up()
    await bot.reply("When is it?")
    await bot.finish()

    prompt = capsys.readouterr().out
    assert "<memory>the eighth</memory>" in prompt
    assert prompt.index("<memory>") < prompt.index("Nora: When is it?")


async def test_bot_starts_with_what_load_context_has(
    async_client: AsyncClient, fake_service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_service.will_answer("Retrieve", RetrieveResponse(briefing="<memory>Goa</memory>"))
    bot = bot_example.Bot(async_client, "Nora")

    await bot.warm_up()
    warmed, asked = fake_service.requests
    await bot.reply("When is it?")
    await bot.finish()

    assert warmed.DESCRIPTOR.name == "WarmRequest"
    assert (asked.profile, asked.limit) == ("opening", 10)
    assert "<memory>Goa</memory>" in capsys.readouterr().out


async def test_bot_recalls_within_80_ms_and_stores_both_turns(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    bot = bot_example.Bot(async_client, "Nora")

    await bot.reply("When is it?")
    await bot.finish()

    (recall,), *stored = fake_service.requests
    assert recall.retrieve.time_budget.ToMilliseconds() == 72
    segments = [item.segment for each in stored for item in each.items]
    assert [segment.speaker for segment in segments] == ["Nora", "Bot"]
    assert len({segment.session for segment in segments}) == 1


@pytest.mark.usefixtures("unhurried")
async def test_bot_answers_without_its_memory(
    async_client: AsyncClient, fake_service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    down = Failure(grpc.StatusCode.PERMISSION_DENIED, "no")
    for method in ("Warm", "Retrieve", "RetrieveStream"):
        fake_service.will_answer(method, down)
    fake_service.will_answer("Ingest", down, down)
    bot = bot_example.Bot(async_client, "Nora")

    await bot.warm_up()
    replied = await bot.reply("When is it?")
    await bot.finish()

    assert replied == "I see."
    assert "failed=1" in (said := capsys.readouterr().out)
    assert "write_failures=2" in said
