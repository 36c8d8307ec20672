"""Embedding by another service: what is sent, what is read, and what goes wrong."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from serving.adapters.openai_api import ApiEmbedder, ApiModel
from serving.adapters.openai_api.embedder import USUAL_TEXT
from serving.domain.budget import Deadline
from serving.domain.errors import (
    DependencyError,
    OverloadedError,
    UnsoundVectorError,
)
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder
from tests.fakes.simulation.openai_api import (
    EmbeddingsServer,
    answering,
    giving,
    serving,
    silence,
)

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
