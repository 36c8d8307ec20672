"""The projector over the log in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.pipeline.project import EmbeddingWork, Projector
from serving.ports import Vectors
from tests.builders import TENANT, segment
from tests.fake_meaning import FAKE_MODEL, FakeEmbedder
from tests.integration.postgres.following import bootstrap

pytestmark = pytest.mark.postgres


class InterruptedEmbedder(FakeEmbedder):
    """While it embeds, the next of the named segments is written."""

    def __init__(self, postgres: Postgres, meanwhile: str) -> None:
        super().__init__()
        self._postgres = postgres
        self._meanwhile = meanwhile.split()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        if self._meanwhile:
            await self._postgres.store.write(TENANT, [segment(self._meanwhile.pop(0))])
        return await super().embed_documents(texts)


async def steps(postgres: Postgres, count: int, meanwhile: str) -> list[tuple[str, bool]]:
    """What has vectors after each step, and whether the model is said to be complete."""
    embedder = InterruptedEmbedder(postgres, meanwhile)
    projector = Projector(postgres.change_log, EmbeddingWork(postgres.change_log, embedder))
    after_each: list[tuple[str, bool]] = []
    async with postgres.change_log.leadership("embedding", FAKE_MODEL):
        for _ in range(count):
            await projector.step(FAKE_MODEL)
            position, rows = await bootstrap(postgres, FAKE_MODEL)
            names = " ".join(sorted(item.id for _, item in rows))
            after_each.append((names, position.complete))
    return after_each


async def test_a_model_is_complete_with_what_was_written_during_its_backlog_not_before(
    postgres: Postgres,
) -> None:
    await postgres.store.write(TENANT, [segment("a")])

    after_each = await steps(postgres, 2, meanwhile="b")

    assert after_each == [("a", False), ("a b", True)]


async def test_a_model_without_a_row_is_complete_at_once(postgres: Postgres) -> None:
    assert await steps(postgres, 1, meanwhile="") == [("", True)]


async def test_writes_that_never_cease_do_not_keep_a_model_from_being_complete(
    postgres: Postgres,
) -> None:
    await postgres.store.write(TENANT, [segment("a")])

    after_each = await steps(postgres, 3, meanwhile="b c d")

    assert after_each == [("a", False), ("a b", True), ("a b c", True)]
