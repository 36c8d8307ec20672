"""What a cross-encoder makes of an answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.adapters.reranker.checkpoint import open_checkpoint
from serving.pipeline.inference.reranker import LOADING
from tests.contract.test_cross_encoder import CLOSE, Score, classifier_forward
from tests.e2e.test_operations import until_shown
from tests.fixtures.service import Service
from tests.support.waiting import first
from trivium import Client, Retrieval, Segment, Stage

pytestmark = pytest.mark.placement

QUESTION = "When did Caroline visit the agency?"
SAID = {
    "visit": "Caroline did visit the adoption agency.",
    "sailed": "We sailed to Goa with the family, and then went home.",
    "talk": "Memory retrieval over many years of talk is hard.",
    "home": "Then Caroline went home.",
}


@pytest.fixture(scope="module")
def memory(service: Service) -> tuple[Client, str]:
    """A client of a tenant that holds what was said, and the token of its writes."""
    client = service.client(tenant="reranking")
    said = [Segment(id=id_, text=text, speaker="Mel") for id_, text in SAID.items()]
    return client, client.ingest(said).consistency_token


@pytest.fixture(scope="module")
def logit(tiny_bert_reranker: Path) -> Score:
    """The model of the service, run outside of it by the transformers library."""
    return classifier_forward(open_checkpoint(str(tiny_bert_reranker)))


def when_loaded(ask: Callable[[], Retrieval]) -> Retrieval:
    """The first answer from when no model is being loaded, which a first question begins."""

    def loaded(answer: Retrieval) -> bool:
        return answer.rerank is not None and not answer.rerank.reason.endswith(LOADING)

    return first(ask, loaded)


def test_hits_are_scored_by_cosine_and_model_logit(
    memory: tuple[Client, str], logit: Score
) -> None:
    client, token = memory
    answer = when_loaded(
        lambda: client.retrieve(
            QUESTION, profile="two_stage", consistency_token=token, explain=True
        )
    )

    assert {hit.id: hit.stage for hit in answer.hits} == dict.fromkeys(SAID, Stage.RERANKED)
    for hit in answer.hits:
        expected = logit(QUESTION, f"Mel: {SAID[hit.id]}")
        assert hit.ledger is not None
        assert hit.ledger.rerank is not None
        assert hit.ledger.rerank.logit == pytest.approx(expected, abs=CLOSE, rel=CLOSE)
        [cosine] = [term.leg_score for term in hit.ledger.leg_terms]
        mixed = 0.3 * cosine + 0.7 / (1 + math.exp(-expected))
        assert hit.score == pytest.approx(mixed, abs=CLOSE)
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)


def test_reranked_answers_are_counted(service: Service, memory: tuple[Client, str]) -> None:
    client, token = memory
    when_loaded(lambda: client.retrieve(QUESTION, profile="two_stage", consistency_token=token))

    until_shown(
        service.metrics,
        r'ray_trivium_reranked_answers_total{.*profile="two_stage".*stage="reranked"',
    )
