"""The replicas of the models over Serve handles, against transformers and sentence-transformers.

In Serve's local testing mode: the deployments as they are, their queues, workers and handles,
without a cluster.
`tests/e2e/test_placements.py` has the same in processes of their own, where vectors have
been through an index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import serve

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.adapters.reranker.checkpoint import open_checkpoint
from serving.deployments.handles import Calls, Remote, RemoteEmbedder
from serving.deployments.parts import Embedder, Reranker
from serving.domain.budget import Deadline
from serving.domain.errors import NotReadyError
from serving.pipeline.inference.reranker import LOADING
from serving.ports.embedding import Embedder as EmbedderPort
from serving.ports.embedding import Vectors
from serving.ports.reranking import Reranker as RerankerPort
from tests.contract.test_cross_encoder import (
    QUERY,
    TEXTS,
    classifier_forward,
    language_model_forward,
)
from tests.support.waiting import POLL_S

CLOSE = 1e-5

RAGGED = ("goa", "when did caroline visit the adoption agency ?", "", "we sailed to goa " * 20)
EQUALLY_LONG = ("a b c", "b c a", "c a b", "a a a")
OVER_LONG = "we sailed to goa with the family and then went home . " * 30


def soon() -> Deadline:
    return Deadline.after(60)


def run(deployment: Any, settings: dict[str, Any]) -> Any:
    return serve.run(deployment.bind(settings), _local_testing_mode=True)


@pytest.fixture(scope="module")
def library(tiny_qwen3: EncoderCheckpoint) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(tiny_qwen3.folder), device="cpu", local_files_only=True)


@pytest.fixture(scope="module")
def embedder(tiny_qwen3: EncoderCheckpoint) -> EmbedderPort:
    return RemoteEmbedder(run(Embedder, {"embedder": {"model": str(tiny_qwen3.folder)}})).port


@pytest.mark.parametrize(
    "texts",
    [RAGGED, RAGGED[::-1], EQUALLY_LONG, RAGGED[:1], ("",), (OVER_LONG, "goa")],
    ids=["ragged", "permuted", "equally long", "single", "empty", "over-long"],
)
async def test_vectors_of_a_replica_are_those_of_sentence_transformers(
    embedder: EmbedderPort, library: Any, texts: Sequence[str]
) -> None:
    # At once, so that they share batches.
    documents, questions = await asyncio.gather(
        embedder.embed_documents(texts),
        asyncio.gather(*(embedder.embed_query(text, soon()) for text in texts)),
    )

    # That library embeds the beginning of a text that is too long, as is done with questions.
    first: Vectors = np.stack([made.vectors[0] for made in documents])
    np.testing.assert_allclose(first, library.encode(list(texts)), atol=CLOSE)
    asked = library.encode(list(texts), prompt_name="query")
    np.testing.assert_allclose(np.stack(questions), asked, atol=CLOSE)


@pytest.mark.parametrize("kind", ["bert", "xlmr", "qwen3"])
async def test_logits_of_a_replica_are_those_of_transformers(
    request: pytest.FixtureRequest, kind: str
) -> None:
    folder: Path = request.getfixturevalue(f"tiny_{kind}_reranker")
    forward = language_model_forward if kind == "qwen3" else classifier_forward
    logit = forward(open_checkpoint(str(folder)))
    handle = run(Reranker, {"reranker": {"model": str(folder)}})
    reranker = Remote[RerankerPort](Calls(handle), "reranker").port

    for texts in (TEXTS, TEXTS[::-1], TEXTS[:1]):
        made = await when_loaded(reranker, texts)
        assert made == pytest.approx([logit(QUERY, text) for text in texts], abs=CLOSE, rel=CLOSE)


async def when_loaded(reranker: RerankerPort, texts: Sequence[str]) -> list[float]:
    """What it answers once its model is there, which only an answer shows."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await reranker.rerank(QUERY, texts, soon())
            except NotReadyError as error:
                if error.why != LOADING:
                    raise
                await asyncio.sleep(POLL_S)
