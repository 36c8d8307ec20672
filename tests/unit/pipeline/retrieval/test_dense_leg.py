"""The leg of meaning: when it lets words decide the order."""

from __future__ import annotations

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
    """Notes whether late interaction is wanted."""

    def __init__(self) -> None:
        engine = InMemoryIndex()
        engine.apply([segment_row(segment("a"), unit(1))], [])
        super().__init__(engine)
        self.wanted: list[bool] = []

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        self.wanted.append(wanted.late_interaction)
        return await super().search(vector, wanted, deadline)


@pytest.mark.parametrize(
    ("text", "in_profile", "wanted"),
    [
        ("Where did we sail?", True, True),
        ("Where did we sail?", False, False),
        ("Who has the room 15b?", True, False),
        ("Who drives X-ray?", True, False),
    ],
)
async def test_words_order_questions_without_codes(
    text: str, *, in_profile: bool, wanted: bool
) -> None:
    index = NotedIndex()
    profile = Profile(name="p", legs=(LegSpec(name="dense", late_interaction=in_profile),))
    space = VectorSpace.here(FakeEmbedder(), index)

    stored = await store_of(segment("a"))
    legs = {"dense": DenseLeg(InMemoryAccessLog(stored))}

    await answered(stored, legs, profile, query(text), space=space)

    assert index.wanted == [wanted]
