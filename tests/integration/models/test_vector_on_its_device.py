"""A query vector stays on its device between an embedder and an index in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.device_vector import DeviceVector
from serving.adapters.vector_index.lists import CpuLibrary
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemKind
from serving.gpu.encoders.qwen3_encoder import Qwen3Encoder
from serving.pipeline.index.vector_space import EmbeddedSearch
from serving.pipeline.inference.embedder import BatchedEmbedder
from serving.ports.embedding import TokenIds
from serving.ports.index_engine import IndexEngine
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE
from tests.fakes.meaning import EngineIndex, segment_row
from tests.support.builders import scope, segment

WORDS = ("we", "sailed", "to", "goa", "memory", "is", "hard")
TEXTS = [" ".join(words) for words in permutations(WORDS, 2)]
FEW = 10


class Kept(DeviceVector):
    """One that may not be brought to the host from another device."""

    def __array__(self, *given: Any, **named: Any) -> NDArray[np.float32]:
        assert self.tensor.device.type == "cpu", "a question's vector was brought to the host"
        return super().__array__(*given, **named)


class RecordingEncoder(Qwen3Encoder):
    def encode_queries(self, windows: Sequence[TokenIds]) -> list[DeviceVector | None]:
        made = super().encode_queries(windows)
        return [None if vector is None else Kept(vector.tensor) for vector in made]


def exact(dimension: int, device: str) -> IndexEngine:
    return ExactIndex(dimension, device=device)


def tiered(dimension: int, device: str) -> IndexEngine:
    assert device == "cpu"
    return TieredIndex(dimension, CpuLibrary(), LISTS_AT_ONCE)


def tiered_on_gpu(dimension: int, device: str) -> IndexEngine:
    from serving.gpu.cuvs_lists import CuvsLibrary

    library = CuvsLibrary(torch.device(device))
    return TieredIndex(dimension, library, LISTS_AT_ONCE, device=device)


on_a_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize(
    ("make_engine", "device"),
    [
        (exact, "cpu"),
        (tiered, "cpu"),
        pytest.param(exact, "cuda", marks=on_a_gpu),
        pytest.param(tiered_on_gpu, "cuda", marks=on_a_gpu),
    ],
)
async def test_a_query_vector_is_searched_on_its_device(
    make_engine: Callable[[int, str], IndexEngine], device: str, tiny_qwen3: EncoderCheckpoint
) -> None:
    encoder = RecordingEncoder(tiny_qwen3, device=device)
    engine = make_engine(encoder.model().dimension, device)
    documents = encoder.encode([encoder.tokenize_document(text)[0] for text in TEXTS])
    rows = [
        segment_row(segment(f"t-{number}", text), vector)
        for number, (text, vector) in enumerate(zip(TEXTS, documents, strict=True))
    ]

    async with BatchedEmbedder(encoder) as embedder:
        search = EmbeddedSearch(embedder, EngineIndex(engine))
        # The first rows are put into lists, and all of them into new ones.
        for end in (FEW, len(rows)):
            engine.apply(rows[:end], [])
            engine.maintain()
            answer = await search.search(
                "goa", WantedNeighbours(ItemKind.SEGMENT, scope(), end), Deadline.after(30)
            )
    engine.close()

    (asked,) = encoder.encode([encoder.tokenize_query("goa")])
    wanted = dict(zip((row.item for row in rows), (documents @ asked).tolist(), strict=True))
    assert {each.item for each in answer.candidates} == set(wanted)
    for each in answer.candidates:
        assert each.score == pytest.approx(wanted[each.item], abs=2e-3)
    assert make_engine is exact or engine.generation >= 2
