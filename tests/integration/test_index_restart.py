"""An index that stops and starts again, over PostgreSQL, with its snapshot on a disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.snapshot_folder import SnapshotFolder
from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.faiss_lists import FaissLibrary
from serving.domain.budget import Deadline
from serving.domain.records import ItemKind, segment_id
from serving.domain.shards import WHOLE
from serving.pipeline.keeping import Keeper
from serving.pipeline.tailing import TailedIndex
from serving.ports import IndexEngine, Selector, WantedNeighbours
from tests.builders import TENANT, ids, scope, segment
from tests.eager_lists import LISTS_AT_ONCE
from tests.integration.postgres.following import MODEL, embed, eventually

pytestmark = pytest.mark.postgres


def exact() -> IndexEngine:
    return ExactIndex(MODEL.dimension)


def in_lists() -> IndexEngine:
    return TieredIndex(MODEL.dimension, FaissLibrary(), LISTS_AT_ONCE)


def index_over(postgres: Postgres, make: Callable[[], IndexEngine], folder: Path) -> TailedIndex:
    keeper = Keeper(SnapshotFolder(folder, WHOLE))
    return TailedIndex(postgres.feed, MODEL, make, maintain_every_s=0.01, keeper=keeper)


async def names(index: TailedIndex) -> list[str]:
    asked = np.array([1, 0, 0, 0], np.float32)
    wanted = WantedNeighbours(ItemKind.SEGMENT, scope(), 100)
    answer = await index.search(asked, wanted, Deadline.after(10))
    return sorted(candidate.item.id for candidate in answer.candidates)


@pytest.mark.parametrize("make", [exact, in_lists])
async def test_what_was_erased_while_it_was_down_is_not_found_and_what_was_written_is(
    postgres: Postgres,
    tmp_path: Path,
    make: Callable[[], IndexEngine],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await postgres.store.write(TENANT, [segment(f"{n:02}") for n in range(40)])
    await embed(postgres)
    async with index_over(postgres, make, tmp_path) as index:
        assert await index.ready(Deadline.after(30))

        async def in_shape() -> bool:
            return make is exact or any(tier.n_lists for tier in index.tiers())

        assert await eventually(in_shape)

    await postgres.store.erase(TENANT, Selector(items=tuple(ids("00", "01"))))
    await postgres.store.write(TENANT, [segment("new")])
    await embed(postgres)
    caplog.set_level("INFO")

    async with index_over(postgres, make, tmp_path) as index:
        assert await index.ready(Deadline.after(30))
        assert await names(index) == [*(f"{n:02}" for n in range(2, 40)), "new"]
        assert await index.count(TENANT, [segment_id("00")]) == 0
        assert make is exact or any(tier.n_lists for tier in index.tiers())

    assert "index begins with its snapshot" in {record.message for record in caplog.records}
