"""The leg of meaning: when it lets words decide the order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from serving.domain.budget import Deadline
from serving.domain.ranking.profile import LegSpec, Profile
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.legs import DenseLeg
from serving.ports.embedding import VectorLike
from serving.ports.vector_index import IndexAnswer, WantedNeighbours
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.times import InMemoryAccessLog
from tests.support.builders import query, segment
from tests.unit.pipeline.retrieval.retrieving import answered, store_of


class NotedIndex(EngineIndex):
    """Notes from which cosine late interaction is wanted."""

    def __init__(self) -> None:
        engine = InMemoryIndex()
        engine.apply([segment_row(segment("a"), unit(1))], [])
        super().__init__(engine)
        self.wanted: list[float | None] = []

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        self.wanted.append(wanted.late_interaction)
        return await super().search(vector, wanted, deadline)


BY_WORDS = LegSpec(name="dense", late_interaction=True)


@pytest.mark.parametrize(
    ("text", "spec", "wanted"),
    [
        ("Where did we sail?", BY_WORDS, -1.0),
        ("Where did we sail?", replace(BY_WORDS, floor=0.2), 0.2),
        ("Where did we sail?", LegSpec(name="dense", floor=0.2), None),
        ("Who has the room 15b?", BY_WORDS, None),
        ("Who drives X-ray?", BY_WORDS, None),
    ],
)
async def test_words_order_questions_without_codes(
    text: str, spec: LegSpec, wanted: float | None
) -> None:
    index = NotedIndex()
    profile = Profile(name="p", legs=(spec,))
    space = VectorSpace.here(FakeEmbedder(), index)

    stored = await store_of(segment("a"))
    legs = {"dense": DenseLeg(InMemoryAccessLog(stored))}

    await answered(stored, legs, profile, query(text), space=space)

    assert index.wanted == [wanted]
