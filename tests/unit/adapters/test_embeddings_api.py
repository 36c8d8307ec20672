"""Embedding by another service: what is sent, what is read, and what goes wrong."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from serving.adapters.openai_api import ApiEmbedder, ApiModel
from serving.adapters.openai_api.embedder import USUAL_TEXT
from serving.domain.breaker import FAILURES, FIRST_PAUSE_S, MIN_PATIENCE_S, Breaker
from serving.domain.budget import Deadline
from serving.domain.errors import (
    BreakerOpenError,
    DependencyError,
    OverloadedError,
    UnsoundVectorError,
)
from serving.domain.items.records import TenantName
from serving.pipeline.index.vector_space import EmbeddedSearch
from tests.fakes.meaning import FAKE_MODEL, FakeEmbedder
from tests.fakes.pipeline import FixedIndex
from tests.fakes.simulation.openai_api import (
    EmbeddingsServer,
    answering,
    giving,
    serving,
    silence,
)
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import until_async

MODEL = ApiModel(name="some-model", dimension=FAKE_MODEL.dimension)
TEXTS = ["We sailed to Goa.", "The wedding is in May.", "Tom bought a boat."]


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingsServer]:
    async with serving(EmbeddingsServer()) as running:
        yield running


@pytest.fixture
async def embedder(server: EmbeddingsServer) -> AsyncIterator[ApiEmbedder]:
    async with ApiEmbedder.opened(server.url, MODEL, "a-key", batch=2, max_waiting=1) as opened:
        yield opened


def soon() -> Deadline:
    return Deadline.after(30)


async def test_vectors_follow_the_texts_at_unit_length(
    embedder: ApiEmbedder, server: EmbeddingsServer
) -> None:
    found = await embedder.embed_documents(TEXTS)
    question = await embedder.embed_query(TEXTS[0], soon())

    for rows, wanted in zip(found, await FakeEmbedder().embed_documents(TEXTS), strict=True):
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, wanted, atol=1e-6)
    np.testing.assert_array_equal(question, found[0][0])
    assert [len(body["input"]) for body in server.bodies] == [2, 1, 1]
    assert {body["model"] for body in server.bodies} == {"some-model"}
    assert not any({"dimensions", "input_type"} & body.keys() for body in server.bodies)
    assert set(server.keys) == {"Bearer a-key"}


async def test_no_texts_are_not_sent(embedder: ApiEmbedder, server: EmbeddingsServer) -> None:
    assert await embedder.embed_documents([]) == []
    assert server.bodies == []


async def test_configured_prefixes_and_dimension_are_sent(server: EmbeddingsServer) -> None:
    model = replace(MODEL, query_prefix="query: ", document_prefix="passage: ", shortened=True)
    async with ApiEmbedder.opened(server.url + "/", model, None) as embedder:
        await embedder.embed_documents(["a"])
        await embedder.embed_query("b", soon())

    assert server.texts == ["passage: a", "query: b"]
    assert {body["dimensions"] for body in server.bodies} == {MODEL.dimension}
    assert server.keys == [None, None]


async def test_voyage_receives_the_type_of_input(server: EmbeddingsServer) -> None:
    model = replace(MODEL, input_type=True)
    async with ApiEmbedder.opened(server.url, model, None) as embedder:
        await embedder.embed_documents(["a"])
        await embedder.embed_query("b", soon())

    assert [body["input_type"] for body in server.bodies] == ["document", "query"]


@pytest.mark.parametrize(
    "other",
    [
        replace(MODEL, name="another"),
        replace(MODEL, dimension=8),
        replace(MODEL, query_prefix="query: "),
        replace(MODEL, document_prefix="query: "),
        replace(MODEL, input_type=True),
    ],
)
async def test_settings_that_change_vectors_change_the_fingerprint(other: ApiModel) -> None:
    assert other.fingerprint != MODEL.fingerprint
    assert replace(MODEL).fingerprint == MODEL.fingerprint


async def test_a_silent_service_costs_a_question_its_deadline(
    embedder: ApiEmbedder, server: EmbeddingsServer
) -> None:
    server.answer = silence

    with pytest.raises(TimeoutError):
        await embedder.embed_query("?", Deadline.after(0.01))


async def test_failing_service_is_skipped_until_a_probe_succeeds(server: EmbeddingsServer) -> None:
    clock = SteppedClock()
    breaker = Breaker("embedder", clock=clock)
    async with ApiEmbedder.opened(server.url, MODEL, None, breaker=breaker) as embedder:
        server.answer = answering(500)
        for _ in range(FAILURES):
            with pytest.raises(DependencyError, match="status 500"):
                await embedder.embed_query("?", soon())
        with pytest.raises(BreakerOpenError, match=r"embedder: breaker open.*status 500"):
            await embedder.embed_query("?", soon())
        assert len(server.bodies) == FAILURES

        server.answer = None
        clock.now += FIRST_PAUSE_S
        with pytest.raises(BreakerOpenError):
            await embedder.embed_query("?", soon())

        async def asked_again() -> bool:
            return not breaker.trouble

        await until_async(asked_again)
        assert len(await embedder.embed_query("?", soon())) == MODEL.dimension


async def test_silent_service_is_skipped_by_all_dense_legs(server: EmbeddingsServer) -> None:
    server.answer = silence
    breaker = Breaker("embedder", clock=SteppedClock())
    async with ApiEmbedder.opened(server.url, MODEL, None, breaker=breaker) as embedder:
        search = EmbeddedSearch(embedder, FixedIndex())
        for text in "abc":
            with pytest.raises(TimeoutError):
                await search.vector_of(TenantName("t"), text, Deadline.after(2 * MIN_PATIENCE_S))
        with pytest.raises(BreakerOpenError):
            await search.vector_of(TenantName("t"), "d", soon())


async def test_a_silent_service_is_no_reason_to_blame_texts(server: EmbeddingsServer) -> None:
    server.answer = silence
    async with ApiEmbedder.opened(server.url, MODEL, None, timeout_s=0.01) as embedder:
        with pytest.raises(DependencyError, match=r"no answer within 0\.01 s"):
            await embedder.embed_documents(TEXTS)


@pytest.mark.parametrize("said", ["7", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "1e9", None])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_service_says_when_to_try_again(
    embedder: ApiEmbedder, server: EmbeddingsServer, status: int, said: str | None
) -> None:
    server.answer = answering(status, **({} if said is None else {"Retry-After": said}))
    wanted = {"7": 7.0, "-1": 0.0, "1e9": 60.0}.get(said or "", 1.0)

    with pytest.raises(OverloadedError) as busy:
        await embedder.embed_documents(TEXTS)

    assert busy.value.retry_after_s == wanted


@pytest.mark.parametrize("status", [301, 401, 403, 404, 500, 502])
async def test_other_answers_are_failures_of_the_service(
    embedder: ApiEmbedder, server: EmbeddingsServer, status: int
) -> None:
    server.answer = answering(status, Location="/v1/embeddings")

    with pytest.raises(DependencyError, match=f"status {status}; check the address, the key"):
        await embedder.embed_query("?", soon())

    assert len(server.bodies) == 1, "redirects are not followed"


async def test_rejected_text_is_poisoned_only_if_others_pass(
    embedder: ApiEmbedder, server: EmbeddingsServer
) -> None:
    server.refused = "poison"
    with pytest.raises(ValueError, match="refuses the text"):
        await embedder.embed_documents(["a poison"])
    assert server.texts == ["a poison", USUAL_TEXT]

    server.answer = answering(400)
    with pytest.raises(DependencyError, match="status 400; check the model's name"):
        await embedder.embed_documents(["a poison"])


@pytest.mark.parametrize(
    ("answered", "why"),
    [
        ([], "lacks vectors"),
        ({"data": None}, "lacks vectors"),
        ({"data": []}, "lacks vectors"),
        ({"data": [{"index": 1, "embedding": [1.0] * FAKE_MODEL.dimension}]}, "lacks vectors"),
        ({"data": [{"index": 0, "embedding": "AAAA"}]}, "lacks vectors"),
        ({"data": [{"index": 0, "embedding": [[1.0], [1.0, 2.0]]}]}, "lacks vectors"),
        ({"data": [{"index": 0, "embedding": [1.0] * 3}]}, r"\(3,\), but TRIVIUM_EMBEDDER__DIM"),
        ({"data": [{"index": 0, "embedding": 1.0}]}, "shape"),
    ],
)
async def test_an_answer_without_the_vectors_is_a_failure_of_the_service(
    embedder: ApiEmbedder, server: EmbeddingsServer, answered: object, why: str
) -> None:
    server.answer = giving(answered)

    with pytest.raises(DependencyError, match=why):
        await embedder.embed_query("?", soon())


async def test_non_json_answer_is_a_dependency_error(
    embedder: ApiEmbedder, server: EmbeddingsServer
) -> None:
    server.answer = answering(200)

    with pytest.raises(DependencyError, match="not JSON"):
        await embedder.embed_query("?", soon())


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, 1e300])
async def test_zero_or_infinite_vector_is_unsound(
    embedder: ApiEmbedder, server: EmbeddingsServer, value: float
) -> None:
    server.answer = giving({"data": [{"index": 0, "embedding": [value] * MODEL.dimension}]})

    with pytest.raises(UnsoundVectorError):
        await embedder.embed_query("?", soon())


async def test_a_service_that_cannot_be_reached_is_named(embedder: ApiEmbedder) -> None:
    async with serving(EmbeddingsServer()) as gone:
        pass
    async with ApiEmbedder.opened(gone.url, MODEL, None) as unreachable:
        with pytest.raises(DependencyError, match=f"{gone.url}/embeddings: ClientConnector"):
            await unreachable.embed_query("?", soon())


async def test_a_bounded_number_of_questions_waits(
    embedder: ApiEmbedder, server: EmbeddingsServer
) -> None:
    async def full(_: dict[str, object]) -> object:
        with pytest.raises(OverloadedError, match="the embedder's queue is full"):
            await embedder.embed_query("second", soon())
        return await answering(500)({})

    server.answer = full  # type: ignore[assignment]  # it answers, after what it tries
    with pytest.raises(DependencyError):
        await embedder.embed_query("first", soon())
    server.answer = None

    assert len(await embedder.embed_query("third", soon())) == MODEL.dimension
    assert server.texts == ["first", "third"]
