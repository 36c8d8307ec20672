"""Extraction by another service: what is sent, what is read, and what goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from serving.adapters.openai_api import ApiExtractor
from serving.adapters.openai_api.extractor import USUAL_TURN
from serving.domain.errors import DependencyError
from serving.ports.text_analysis import Conversation, UnusableAnswerError
from tests.fakes.simulation.openai_api import (
    CompletionsServer,
    answered,
    answering,
    completion,
    giving,
    proposed,
    serving,
    silence,
)
from tests.support.builders import fact, segment

TALK = Conversation(
    turns=(segment("id-2", "I moved to Paris.", speaker="Ann"),),
    before=(segment("id-1", "Where do you live?", speaker="Tom"),),
    facts=(fact("id-f", "Ann", "lives in", "Rome"),),
)


class Api(NamedTuple):
    """A server, and an extractor that asks it."""

    server: CompletionsServer
    extractor: ApiExtractor


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with (
        serving(CompletionsServer()) as server,
        ApiExtractor.opened(server.url, "some-model", "a-key") as extractor,
    ):
        yield Api(server, extractor)


async def test_turns_and_facts_are_sent_under_short_labels(api: Api) -> None:
    await api.extractor.extract(TALK)

    (asked,), (body,) = api.server.conversations, api.server.bodies
    (before,), (read,) = asked["before"], asked["read"]
    assert (before["label"], before["speaker"]) == ("t1", "Tom")
    assert before["text"] == "Where do you live?"
    assert (read["label"], read["time"]) == ("t2", "2026-03-01T12:00+00:00")
    assert asked["known"] == [{"label": "f1", "fact": "Ann lives in Rome"}]
    assert body["model"] == "some-model"
    assert body["temperature"] == 0
    schema = body["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["additionalProperties"] is False
    assert api.server.keys == ["Bearer a-key"]


async def test_answer_becomes_facts_with_ids_of_labels(api: Api) -> None:
    api.server.content = answered(
        proposed(evidence=["t2", "t1"], closes=["f1"], valid_from="2026-02-01"),
        proposed(evidence=["t9"], closes=["f9"], valid_to="2026-02-01T10:00:00+02:00"),
    )

    proposal = await api.extractor.extract(TALK)

    moved, unknown = proposal.facts
    assert (moved.subject, moved.relation, moved.object) == ("Ann", "lives in", "Paris")
    assert moved.evidence == ("id-2", "id-1")
    assert moved.closes == ("id-f",)
    assert moved.valid_from == datetime(2026, 2, 1, tzinfo=UTC)
    assert moved.single_valued
    assert unknown.evidence == ("",), "a label that was not given names no turn"
    assert unknown.closes == ("",)
    assert unknown.valid_to == datetime(2026, 2, 1, 8, tzinfo=UTC)
    assert (proposal.sent_tokens, proposal.received_tokens) == (300, 20)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("Sure! Ann lives in Paris.", "prose"),
        ("- Ann lives in Paris\n- Tom asks", "prose"),
        ('[{"subject": "Ann"}]', "no object"),
        ('["Ann lives in Paris"]', "no object"),
        ('"Ann"', "no object"),
        (answered(proposed())[:-9], "half JSON"),
        ('{"facts": "none"}', "other fields"),
        ("{}", "other fields"),
        (answered({"subject": "Ann"}), "other fields"),
        (answered(proposed(), proposed(mood="good")), "other fields"),
        (answered(proposed(valid_from="last summer")), "other fields"),
        ("", "no text"),
        (None, "no text"),
    ],
)
async def test_malformed_answer_is_rejected_without_quoting(
    api: Api, content: object, reason: str
) -> None:
    api.server.answer = giving(completion(content))

    with pytest.raises(UnusableAnswerError) as unusable:
        await api.extractor.extract(TALK)

    assert unusable.value.reason == reason
    assert (unusable.value.sent_tokens, unusable.value.received_tokens) == (300, 20)


@pytest.mark.parametrize("given", [{}, [], {"choices": []}, {"choices": [{"message": None}]}])
async def test_an_answer_without_a_message_is_refused(api: Api, given: object) -> None:
    api.server.answer = giving(given)

    with pytest.raises(UnusableAnswerError, match="no message"):
        await api.extractor.extract(TALK)


async def test_failure_of_the_service_names_the_extractor(api: Api) -> None:
    api.server.answer = answering(500)

    with pytest.raises(DependencyError, match=r"extractor: .* status 500; check the address"):
        await api.extractor.extract(TALK)


async def test_refusal_blames_turns_only_if_probe_passes(api: Api) -> None:
    api.server.refused = "moved"
    with pytest.raises(UnusableAnswerError, match="refused"):
        await api.extractor.extract(TALK)
    assert api.server.conversations[-1]["read"][0]["text"] == USUAL_TURN.text

    api.server.answer = answering(400)
    with pytest.raises(DependencyError, match="400; check the model's name, and that it has resp"):
        await api.extractor.extract(TALK)


@pytest.mark.parametrize(
    "said",
    [
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead.",
        "Unsupported value: 'temperature' does not support 0 with this model.",
    ],
)
async def test_new_model_is_asked_by_new_names(api: Api, said: str) -> None:
    async def old_names_refused(body: dict[str, Any]) -> web.StreamResponse:
        if "max_completion_tokens" in body:
            return web.json_response(completion(api.server.content))
        return web.json_response({"error": {"message": said}}, status=400)

    api.server.answer = old_names_refused
    await api.extractor.extract(TALK)
    await api.extractor.extract(TALK)

    bodies = api.server.bodies
    asked = [[name for name in body if name.startswith(("max", "temp"))] for body in bodies]
    assert asked == [["temperature", "max_tokens"], *[["max_completion_tokens"]] * 2]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ({"message": "The model `some\nmodel` does not exist"}, r"\(The model `some model` does"),
        ("model not found", r"\(model not found\)"),
        ({"message": "x" * 900}, r"\(x{200}\)"),
        ({}, "404;"),
    ],
)
async def test_error_repeats_the_message_of_the_service(
    api: Api, error: object, shown: str
) -> None:
    async def refusing(_body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": error}, status=404)

    api.server.answer = refusing

    with pytest.raises(DependencyError, match=shown):
        await api.extractor.extract(TALK)


async def test_silence_blames_turns_only_if_probe_passes(api: Api) -> None:
    api.server.answer, api.server.selected = silence, "moved"
    # The usual turn has the same limit, which must suffice on a busy machine.
    async with ApiExtractor.opened(api.server.url, "some-model", None, timeout_s=2.0) as extractor:
        with pytest.raises(UnusableAnswerError, match="timeout"):
            await extractor.extract(TALK)
    api.server.selected = ""
    async with ApiExtractor.opened(api.server.url, "some-model", None, timeout_s=0.01) as extractor:
        with pytest.raises(DependencyError, match=r"no answer within 0\.01 s"):
            await extractor.extract(TALK)
