"""Embedding, reranking and extraction by another service: what is sent, read, and goes wrong."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from aiohttp import web
from pydantic import ValidationError

from serving.adapters.openai_api import ApiEmbedder, ApiExtractor, ApiModel, ApiReranker
from serving.adapters.openai_api.embedder import USUAL_TEXT
from serving.adapters.openai_api.extractor import USUAL_TURN
from serving.composition.models import open_reranker
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, OverloadedError, UnsoundVectorError
from serving.ports.text_analysis import Conversation, UnusableAnswerError
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder
from tests.fakes.simulation.openai_api import (
    CompletionsServer,
    EmbeddingsServer,
    RerankServer,
    answered,
    answering,
    completion,
    giving,
    proposed,
    serving,
    silence,
)
from tests.support.builders import fact, segment

MODEL = ApiModel(name="some-model", dimension=FAKE_MODEL.dimension)
TEXTS = ["We sailed to Goa.", "The wedding is in May.", "Tom bought a boat."]


class Api(NamedTuple):
    """A server, and an embedder that asks it."""

    server: EmbeddingsServer
    embedder: ApiEmbedder


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with (
        serving(EmbeddingsServer()) as server,
        ApiEmbedder.opened(server.url, MODEL, "a-key", batch=2, max_waiting=1) as embedder,
    ):
        yield Api(server, embedder)


def soon() -> Deadline:
    return Deadline.after(30)


async def test_vectors_follow_the_texts_at_unit_length(api: Api) -> None:
    found = await api.embedder.embed_documents(TEXTS)
    question = await api.embedder.embed_query(TEXTS[0], soon())

    for made, wanted in zip(found, await FakeEmbedder().embed_documents(TEXTS), strict=True):
        assert made.vectors.dtype == np.float32
        np.testing.assert_allclose(made.vectors, wanted.vectors, atol=1e-6)
    np.testing.assert_array_equal(question, found[0].vectors[0])
    assert [len(body["input"]) for body in api.server.bodies] == [2, 1, 1]
    assert {body["model"] for body in api.server.bodies} == {"some-model"}
    assert not any({"dimensions", "input_type"} & body.keys() for body in api.server.bodies)
    assert set(api.server.keys) == {"Bearer a-key"}


async def test_no_texts_are_not_sent(api: Api) -> None:
    assert await api.embedder.embed_documents([]) == []
    assert api.server.bodies == []


async def test_configured_prefixes_types_and_dimension_are_sent(api: Api) -> None:
    model = replace(MODEL, query_prefix="query: ", document_prefix="passage: ", shortened=True)
    model = replace(model, input_type=True)  # as Voyage has it
    async with ApiEmbedder.opened(api.server.url + "/", model, None) as embedder:
        await embedder.embed_documents(["a"])
        await embedder.embed_query("b", soon())

    assert api.server.texts == ["passage: a", "query: b"]
    assert [body["input_type"] for body in api.server.bodies] == ["document", "query"]
    assert {body["dimensions"] for body in api.server.bodies} == {MODEL.dimension}
    assert api.server.keys == [None, None]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "another"),
        ("dimension", 8),
        ("query_prefix", "query: "),
        ("document_prefix", "query: "),
        ("input_type", True),
    ],
)
async def test_settings_that_change_vectors_change_the_fingerprint(field: str, value: Any) -> None:
    assert replace(MODEL, **{field: value}).fingerprint != MODEL.fingerprint
    assert replace(MODEL).fingerprint == MODEL.fingerprint


async def test_a_silent_service_costs_a_question_its_deadline(api: Api) -> None:
    api.server.answer = silence

    with pytest.raises(TimeoutError):
        await api.embedder.embed_query("?", Deadline.after(0.01))


async def test_a_silent_service_is_no_reason_to_blame_texts(api: Api) -> None:
    api.server.answer = silence
    async with ApiEmbedder.opened(api.server.url, MODEL, None, timeout_s=0.01) as embedder:
        with pytest.raises(DependencyError, match=r"no answer within 0\.01 s"):
            await embedder.embed_documents(TEXTS)


@pytest.mark.parametrize("said", ["7", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "1e9", None])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_service_says_when_to_try_again(
    api: Api, status: int, said: str | None
) -> None:
    api.server.answer = answering(status, **({} if said is None else {"Retry-After": said}))
    wanted = {"7": 7.0, "-1": 0.0, "1e9": 60.0}.get(said or "", 1.0)

    with pytest.raises(OverloadedError) as busy:
        await api.embedder.embed_documents(TEXTS)

    assert busy.value.retry_after_s == wanted


@pytest.mark.parametrize("status", [301, 401, 403, 404, 500, 502])
async def test_other_answers_are_failures_of_the_service(api: Api, status: int) -> None:
    api.server.answer = answering(status, Location="/v1/embeddings")

    with pytest.raises(DependencyError, match=f"status {status}; check the address, the key"):
        await api.embedder.embed_query("?", soon())

    assert len(api.server.bodies) == 1, "redirects are not followed"


async def test_rejected_text_is_poisoned_only_if_others_pass(api: Api) -> None:
    api.server.refused = "poison"
    with pytest.raises(ValueError, match="refuses the text"):
        await api.embedder.embed_documents(["a poison"])
    assert api.server.texts == ["a poison", USUAL_TEXT]

    api.server.answer = answering(400)
    with pytest.raises(DependencyError, match="status 400; check the model's name"):
        await api.embedder.embed_documents(["a poison"])


def vectors(embedding: object, index: int = 0) -> dict[str, object]:
    return {"data": [{"index": index, "embedding": embedding}]}


@pytest.mark.parametrize(
    ("answered", "why"),
    [
        ([], "lacks vectors"),
        ({"data": None}, "lacks vectors"),
        ({"data": []}, "lacks vectors"),
        (vectors([1.0] * FAKE_MODEL.dimension, index=1), "lacks vectors"),
        (vectors("AAAA"), "lacks vectors"),
        (vectors([[1.0], [1.0, 2.0]]), "lacks vectors"),
        (vectors([1.0] * 3), r"\(3,\), but TRIVIUM_EMBEDDER__DIM"),
        (vectors(1.0), "shape"),
        (None, "not JSON"),
    ],
)
async def test_an_answer_without_the_vectors_is_a_failure_of_the_service(
    api: Api, answered: object, why: str
) -> None:
    api.server.answer = answering(200) if answered is None else giving(answered)

    with pytest.raises(DependencyError, match=why):
        await api.embedder.embed_query("?", soon())


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, 1e300])
async def test_zero_or_infinite_vector_is_unsound(api: Api, value: float) -> None:
    api.server.answer = giving(vectors([value] * MODEL.dimension))

    with pytest.raises(UnsoundVectorError):
        await api.embedder.embed_query("?", soon())


async def test_a_service_that_cannot_be_reached_is_named() -> None:
    async with serving(EmbeddingsServer()) as gone:
        pass
    async with ApiEmbedder.opened(gone.url, MODEL, None) as unreachable:
        with pytest.raises(DependencyError, match=f"{gone.url}/embeddings: ClientConnector"):
            await unreachable.embed_query("?", soon())


async def test_a_bounded_number_of_questions_waits(api: Api) -> None:
    async def full(_: dict[str, object]) -> object:
        with pytest.raises(OverloadedError, match="the embedder's queue is full"):
            await api.embedder.embed_query("second", soon())
        return await answering(500)({})

    api.server.answer = full  # type: ignore[assignment]  # it answers, after what it tries
    with pytest.raises(DependencyError):
        await api.embedder.embed_query("first", soon())
    api.server.answer = None

    assert len(await api.embedder.embed_query("third", soon())) == MODEL.dimension
    assert api.server.texts == ["first", "third"]


# ---------------------------------------------------------------- reranking


PASSAGES = ["We sailed to Goa.", "In May.", "Tom bought a boat, and sails it on Sundays."]


class RerankApi(NamedTuple):
    """A server, and a reranker that asks it."""

    server: RerankServer
    reranker: ApiReranker


@pytest.fixture
async def rerank_api() -> AsyncIterator[RerankApi]:
    async with (
        serving(RerankServer()) as server,
        ApiReranker.opened(server.url + "/", "some-model", "a-key") as reranker,
    ):
        yield RerankApi(server, reranker)


@pytest.mark.parametrize("form", ["cohere", "voyage", "tei"])
async def test_logits_follow_the_texts(rerank_api: RerankApi, form: str) -> None:
    rerank_api.server.form, url = form, rerank_api.server.url
    texts_field: Literal["documents", "texts"] = "texts" if form == "tei" else "documents"
    async with ApiReranker.opened(url, "some-model", None, texts_field) as reranker:
        logits = await reranker.rerank("Who sails?", PASSAGES, soon())

    chances = [len(text) / 100 for text in PASSAGES]
    assert logits == pytest.approx([math.log(each / (1 - each)) for each in chances])
    assert rerank_api.server.bodies == [
        {"model": "some-model", "query": "Who sails?", texts_field: PASSAGES}
    ]
    assert rerank_api.server.keys == [None]


async def test_key_is_sent_and_no_text_asks_nothing(rerank_api: RerankApi) -> None:
    assert await rerank_api.reranker.rerank("?", [], soon()) == []
    await rerank_api.reranker.rerank("?", PASSAGES, soon())

    assert rerank_api.server.keys == ["Bearer a-key"]


@pytest.mark.parametrize(
    ("scores", "logits"),
    [([0.0, 1.0], [-13.8155, 13.8155]), ([-2.5, 7.0], [-2.5, 7.0]), ([0.5, 1.5], [0.5, 1.5])],
)
async def test_scores_beyond_probabilities_are_logits(
    rerank_api: RerankApi, scores: list[float], logits: list[float]
) -> None:
    listed = [{"index": place, "score": score} for place, score in enumerate(scores)]
    rerank_api.server.answer = giving(listed)

    assert await rerank_api.reranker.rerank("?", PASSAGES[:2], soon()) == pytest.approx(
        logits, abs=1e-3
    )


@pytest.mark.parametrize(
    "answered",
    [
        None,
        {},
        [],
        "no list",
        {"results": 3},
        {"results": [{"index": 0, "relevance_score": 0.5}]},
        [{"index": 0, "score": "high"}, {"index": 1, "score": 0.5}],
        [{"index": 0, "score": 1e999}, {"index": 1, "score": 0.5}],
        [{"score": 0.5}, {"score": 0.5}],
    ],
)
async def test_answer_without_scores_is_an_error(rerank_api: RerankApi, answered: object) -> None:
    rerank_api.server.answer = giving(answered)

    with pytest.raises(DependencyError, match="rerank API: "):
        await rerank_api.reranker.rerank("?", PASSAGES[:2], soon())


async def test_refusal_advises_to_check_the_model_name(rerank_api: RerankApi) -> None:
    rerank_api.server.refused = "Goa"

    with pytest.raises(DependencyError, match=r"status 400 \(refused\); check the model's name"):
        await rerank_api.reranker.rerank("?", PASSAGES, soon())


async def test_busy_silent_and_failing_services_raise(rerank_api: RerankApi) -> None:
    for answer, error in (
        (answering(429), OverloadedError),
        (answering(500), DependencyError),
        (answering(302, Location="http://127.0.0.1:9"), DependencyError),
        (silence, TimeoutError),
    ):
        rerank_api.server.answer = answer
        with pytest.raises(error):
            await rerank_api.reranker.rerank(
                "?", PASSAGES, Deadline.after(0.05 if answer is silence else 30)
            )


async def test_settings_open_the_reranker_elsewhere(rerank_api: RerankApi) -> None:
    settings = {"model": "some-model", "api": {"url": rerank_api.server.url, "key": "a-key"}}

    async with open_reranker(load_settings({"reranker": settings})) as reranker:
        assert reranker is not None
        assert len(await reranker.rerank("?", PASSAGES, soon())) == 3


@pytest.mark.parametrize(
    ("settings", "why"),
    [({}, "model must be set"), ({"model": "m", "device": "cuda"}, "device says how")],
)
def test_settings_of_a_model_here_contradict_an_api(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        load_settings({"reranker": {**settings, "api": {"url": "http://127.0.0.1:1"}}})


# ---------------------------------------------------------------- extraction


TALK = Conversation(
    turns=(segment("id-2", "I moved to Paris.", speaker="Ann"),),
    before=(segment("id-1", "Where do you live?", speaker="Tom"),),
    facts=(fact("id-f", "Ann", "lives in", "Rome"),),
)


class ExtractionApi(NamedTuple):
    """A server, and an extractor that asks it."""

    server: CompletionsServer
    extractor: ApiExtractor


@pytest.fixture
async def extraction_api() -> AsyncIterator[ExtractionApi]:
    async with (
        serving(CompletionsServer()) as server,
        ApiExtractor.opened(server.url, "some-model", "a-key") as extractor,
    ):
        yield ExtractionApi(server, extractor)


async def test_turns_and_facts_are_sent_under_short_labels(extraction_api: ExtractionApi) -> None:
    await extraction_api.extractor.extract(TALK)

    (asked,), (body,) = extraction_api.server.conversations, extraction_api.server.bodies
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
    assert extraction_api.server.keys == ["Bearer a-key"]


async def test_answer_becomes_facts_with_ids_of_labels(extraction_api: ExtractionApi) -> None:
    extraction_api.server.content = answered(
        proposed(evidence=["t2", "t1"], closes=["f1"], valid_from="2026-02-01"),
        proposed(evidence=["t9"], closes=["f9"], valid_to="2026-02-01T10:00:00+02:00"),
    )

    proposal = await extraction_api.extractor.extract(TALK)

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
    extraction_api: ExtractionApi, content: object, reason: str
) -> None:
    extraction_api.server.answer = giving(completion(content))

    with pytest.raises(UnusableAnswerError) as unusable:
        await extraction_api.extractor.extract(TALK)

    assert unusable.value.reason == reason
    assert (unusable.value.sent_tokens, unusable.value.received_tokens) == (300, 20)


@pytest.mark.parametrize("given", [{}, [], {"choices": []}, {"choices": [{"message": None}]}])
async def test_an_answer_without_a_message_is_refused(
    extraction_api: ExtractionApi, given: object
) -> None:
    extraction_api.server.answer = giving(given)

    with pytest.raises(UnusableAnswerError, match="no message"):
        await extraction_api.extractor.extract(TALK)


async def test_failure_of_the_service_names_the_extractor(extraction_api: ExtractionApi) -> None:
    extraction_api.server.answer = answering(500)

    with pytest.raises(DependencyError, match=r"extractor: .* status 500; check the address"):
        await extraction_api.extractor.extract(TALK)


async def test_refusal_blames_turns_only_if_probe_passes(extraction_api: ExtractionApi) -> None:
    extraction_api.server.refused = "moved"
    with pytest.raises(UnusableAnswerError, match="refused"):
        await extraction_api.extractor.extract(TALK)
    assert extraction_api.server.conversations[-1]["read"][0]["text"] == USUAL_TURN.text

    extraction_api.server.answer = answering(400)
    with pytest.raises(DependencyError, match="400; check the model's name, and that it has resp"):
        await extraction_api.extractor.extract(TALK)


@pytest.mark.parametrize(
    "said",
    [
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead.",
        "Unsupported value: 'temperature' does not support 0 with this model.",
    ],
)
async def test_new_model_is_asked_by_new_names(extraction_api: ExtractionApi, said: str) -> None:
    async def old_names_refused(body: dict[str, Any]) -> web.StreamResponse:
        if "max_completion_tokens" in body:
            return web.json_response(completion(extraction_api.server.content))
        return web.json_response({"error": {"message": said}}, status=400)

    extraction_api.server.answer = old_names_refused
    await extraction_api.extractor.extract(TALK)
    await extraction_api.extractor.extract(TALK)

    bodies = extraction_api.server.bodies
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
    extraction_api: ExtractionApi, error: object, shown: str
) -> None:
    async def refusing(_body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": error}, status=404)

    extraction_api.server.answer = refusing

    with pytest.raises(DependencyError, match=shown):
        await extraction_api.extractor.extract(TALK)


async def test_silence_blames_turns_only_if_probe_passes(extraction_api: ExtractionApi) -> None:
    extraction_api.server.answer, extraction_api.server.selected = silence, "moved"
    # The usual turn has the same limit, which must suffice on a busy machine.
    async with ApiExtractor.opened(
        extraction_api.server.url, "some-model", None, timeout_s=2.0
    ) as extractor:
        with pytest.raises(UnusableAnswerError, match="timeout"):
            await extractor.extract(TALK)
    extraction_api.server.selected = ""
    async with ApiExtractor.opened(
        extraction_api.server.url, "some-model", None, timeout_s=0.01
    ) as extractor:
        with pytest.raises(DependencyError, match=r"no answer within 0\.01 s"):
            await extractor.extract(TALK)
