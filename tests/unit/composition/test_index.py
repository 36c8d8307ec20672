"""The parts of a vector space that are given, and what is made of them."""

from __future__ import annotations

from typing import Any, cast

from serving.composition.index import SpaceParts, complete_space
from serving.config.settings import EmbedderSettings, Settings
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemKind
from serving.ports.embedding import Vector
from serving.ports.vector_index import WantedNeighbours
from serving.telemetry import NoRecorder
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import FixedIndex
from tests.support.builders import scope

WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 3)


class CountingEmbedder(FakeEmbedder):
    """Notes what it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        self.asked.append(text)
        return await super().embed_query(text, deadline)


async def test_space_keeps_as_many_questions_as_set() -> None:
    embedder = CountingEmbedder()
    settings = Settings(embedder=EmbedderSettings(kept_questions=1))
    parts = SpaceParts(embedder, FixedIndex())

    async with complete_space(settings, cast(Any, None), NoRecorder(), parts) as space:
        for text in ("a", "a", "b", "a"):
            await space.text_search.search(text, WANTED, Deadline.after(5))

    assert embedder.asked == ["a", "b", "a"]
