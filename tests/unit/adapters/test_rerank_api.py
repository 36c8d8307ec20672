"""Reranking by another service: what is sent, what is read, and what goes wrong."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
from pydantic import ValidationError

from serving.adapters.openai_api import ApiReranker
from serving.composition.models import open_reranker
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, OverloadedError
from tests.fakes.simulation.openai_api import RerankServer, answering, giving, serving, silence

TEXTS = ["We sailed to Goa.", "In May.", "Tom bought a boat, and sails it on Sundays."]


class Api(NamedTuple):
    """A server, and a reranker that asks it."""

    server: RerankServer
    reranker: ApiReranker


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with (
        serving(RerankServer()) as server,
        ApiReranker.opened(server.url + "/", "some-model", "a-key") as reranker,
    ):
        yield Api(server, reranker)


def soon() -> Deadline:
    return Deadline.after(30)


@pytest.mark.parametrize("form", ["cohere", "voyage", "tei"])
async def test_logits_follow_the_texts(api: Api, form: str) -> None:
    api.server.form = form
    texts_field = "texts" if form == "tei" else "documents"
    async with ApiReranker.opened(api.server.url, "some-model", None, texts_field) as reranker:  # type: ignore[arg-type]
        logits = await reranker.rerank("Who sails?", TEXTS, soon())

    chances = [len(text) / 100 for text in TEXTS]
    assert logits == pytest.approx([math.log(each / (1 - each)) for each in chances])
    assert api.server.bodies == [{"model": "some-model", "query": "Who sails?", texts_field: TEXTS}]
    assert api.server.keys == [None]


async def test_key_is_sent_and_no_text_asks_nothing(api: Api) -> None:
    assert await api.reranker.rerank("?", [], soon()) == []
    await api.reranker.rerank("?", TEXTS, soon())

    assert api.server.keys == ["Bearer a-key"]


@pytest.mark.parametrize(
    ("scores", "logits"),
    [([0.0, 1.0], [-13.8155, 13.8155]), ([-2.5, 7.0], [-2.5, 7.0]), ([0.5, 1.5], [0.5, 1.5])],
)
async def test_scores_beyond_probabilities_are_logits(
    api: Api, scores: list[float], logits: list[float]
) -> None:
    listed = [{"index": place, "score": score} for place, score in enumerate(scores)]
    api.server.answer = giving(listed)

    assert await api.reranker.rerank("?", TEXTS[:2], soon()) == pytest.approx(logits, abs=1e-3)


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
async def test_answer_without_scores_is_an_error(api: Api, answered: object) -> None:
    api.server.answer = giving(answered)

    with pytest.raises(DependencyError, match="rerank API: "):
        await api.reranker.rerank("?", TEXTS[:2], soon())


async def test_refusal_names_what_to_check(api: Api) -> None:
    api.server.refused = "Goa"

    with pytest.raises(DependencyError, match=r"status 400 \(refused\); check the model's name"):
        await api.reranker.rerank("?", TEXTS, soon())


async def test_busy_silent_and_failing_services_raise(api: Api) -> None:
    for answer, error in (
        (answering(429), OverloadedError),
        (answering(500), DependencyError),
        (answering(302, Location="http://127.0.0.1:9"), DependencyError),
        (silence, TimeoutError),
    ):
        api.server.answer = answer
        with pytest.raises(error):
            await api.reranker.rerank("?", TEXTS, Deadline.after(0.05 if answer is silence else 30))


async def test_settings_open_the_reranker_elsewhere(api: Api) -> None:
    settings = {"model": "some-model", "api": {"url": api.server.url, "key": "a-key"}}

    async with open_reranker(load_settings({"reranker": settings})) as reranker:
        assert reranker is not None
        assert len(await reranker.rerank("?", TEXTS, soon())) == 3


@pytest.mark.parametrize(
    ("settings", "why"),
    [({}, "model must be set"), ({"model": "m", "device": "cuda"}, "device says how")],
)
def test_settings_of_a_model_here_contradict_an_api(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        load_settings({"reranker": {**settings, "api": {"url": "http://127.0.0.1:1"}}})
