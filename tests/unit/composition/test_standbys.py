"""What the standby of an embedder is computed with, and that it is the same model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.composition.models import open_embedder
from serving.composition.standbys import on_cpu, open_embedder_standby
from serving.config.settings import load_settings
from serving.domain.errors import DependencyError
from serving.ports.embedding import EmbeddingModel
from serving.telemetry import NoRecorder
from tests.unit.pipeline.retrieval.retrieving import soon


def on_cuda(checkpoint: EncoderCheckpoint, **embedder: Any) -> dict[str, Any]:
    return {"embedder": {"model": str(checkpoint.folder), "device": "cuda", **embedder}}


@pytest.mark.parametrize(
    ("asked", "precision"),
    [("auto", "bfloat16"), ("float32", "float32"), ("float16", "float16")],
)
def test_the_standby_of_a_qwen3_has_the_precision_of_the_one_on_the_gpu(
    tiny_qwen3: EncoderCheckpoint, asked: str, precision: str
) -> None:
    settings = load_settings(on_cuda(tiny_qwen3, precision=asked))

    standby = on_cpu(settings.embedder, tiny_qwen3)

    assert (standby.backend, standby.device, standby.precision) == ("qwen3", "cpu", precision)


def test_the_standby_of_another_model_is_computed_as_that_is(tiny_bert: EncoderCheckpoint) -> None:
    settings = load_settings(on_cuda(tiny_bert))

    standby = on_cpu(settings.embedder, tiny_bert)

    assert (standby.backend, standby.device, standby.precision) == ("torch", "cpu", "float32")


def test_the_standby_of_one_on_a_cpu_is_another_of_it(tiny_bert: EncoderCheckpoint) -> None:
    settings = load_settings({"embedder": {"model": str(tiny_bert.folder)}})

    assert on_cpu(settings.embedder, tiny_bert).device == "cpu"


LEAST_COSINE = 0.99999
"""Of two runs of the tiny model in one precision. Those of float32 and bfloat16 are at 0.99996 in
the median, which changes three in a hundred of the ten nearest."""


async def test_a_standby_has_the_fingerprint_and_the_vectors_of_what_it_stands_in_for(
    tiny_qwen3: EncoderCheckpoint,
) -> None:
    """On a CPU in bfloat16, which is what `auto` gives on a GPU."""
    of_gpu = {"model": str(tiny_qwen3.folder), "precision": "bfloat16"}
    settings = load_settings({"embedder": of_gpu})
    standbys = load_settings(
        on_cuda(tiny_qwen3, standby="warm") | {"serve": {"placement": "split"}}
    )

    async with open_embedder(settings, NoRecorder()) as embedder:
        model = await embedder.model()
        async with open_embedder_standby(standbys, model) as standby:
            for text in ("", "goa", "who moved to the coast in may ?"):
                cosine = np.dot(
                    await embedder.embed_query(text, soon()),
                    await standby.embed_query(text, soon()),
                )
                assert cosine >= LEAST_COSINE


async def test_a_standby_that_is_another_model_is_refused(tiny_qwen3: EncoderCheckpoint) -> None:
    settings = load_settings(
        on_cuda(tiny_qwen3, standby="warm") | {"serve": {"placement": "split"}}
    )

    with pytest.raises(DependencyError, match="does not compare with the vectors of the rows"):
        async with open_embedder_standby(settings, EmbeddingModel("another", 64)):
            pass
