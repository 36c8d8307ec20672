"""An index that stops and starts again, over PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.lists import CpuLibrary
from serving.domain.budget import Deadline
from serving.domain.items.records import ItemKind, segment_id
from serving.pipeline.index import maintenance
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.ports.index_engine import IndexEngine
from serving.ports.memory_store import Selector
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE
from tests.integration.postgres.log.following import MODEL, embed
from tests.support.builders import TENANT, batch_of, ids, scope, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres


def exact() -> IndexEngine:
    return ExactIndex(MODEL.dimension)


def in_lists() -> IndexEngine:
    return TieredIndex(MODEL.dimension, CpuLibrary(), LISTS_AT_ONCE)


def index_over(postgres: Postgres, make: Callable[[], IndexEngine]) -> LogFollowingIndex:
    return LogFollowingIndex(postgres.feed, MODEL, make)


async def names(index: LogFollowingIndex) -> list[str]:
    asked = np.array([1, 0, 0, 0], np.float32)
    wanted = WantedNeighbours(ItemKind.SEGMENT, scope(), 100)
    answer = await index.search(asked, wanted, Deadline.after(60))
    return sorted(candidate.item.id for candidate in answer.candidates)


@pytest.mark.parametrize("make", [exact, in_lists])
async def test_a_restarted_index_follows_changes_made_meanwhile(
    postgres: Postgres, make: Callable[[], IndexEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MAINTAIN_EVERY_S", 0.01)
    await postgres.store.write(batch_of(*(segment(f"{n:02}") for n in range(40))))
    await embed(postgres)
    async with index_over(postgres, make) as index:
        assert await index.ready(Deadline.after(30))

    await postgres.store.erase(TENANT, Selector(items=tuple(ids("00", "01"))))
    await postgres.store.write(batch_of(segment("new")))
    await embed(postgres)

    async with index_over(postgres, make) as index:
        assert await index.ready(Deadline.after(30))
        assert await names(index) == [*(f"{n:02}" for n in range(2, 40)), "new"]
        assert await index.count(TENANT, [segment_id("00")]) == 0

        async def is_in_lists() -> bool:
            return make is exact or any(tier.approximate for tier in index.tiers())

        await until_async(is_in_lists)
