"""An index that stops and starts again, over PostgreSQL, with its snapshot on a disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.snapshot_folder import SnapshotFolder
from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.lists import CpuLibrary
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import ItemKind, Segment, segment_id
from serving.domain.shards import WHOLE
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.snapshots import SnapshotWriter
from serving.ports.index_engine import IndexEngine
from serving.ports.memory_store import Selector
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE
from tests.integration.postgres.log.following import MODEL, embed, eventually
from tests.support.builders import TENANT, fact, ids, scope, segment

pytestmark = pytest.mark.postgres

MARK = "xyzzy"


def exact() -> IndexEngine:
    return ExactIndex(MODEL.dimension)


def in_lists() -> IndexEngine:
    return TieredIndex(MODEL.dimension, CpuLibrary(), LISTS_AT_ONCE)


def index_over(
    postgres: Postgres, make: Callable[[], IndexEngine], folder: Path
) -> LogFollowingIndex:
    snapshot_writer = SnapshotWriter(SnapshotFolder(folder, WHOLE))
    return LogFollowingIndex(
        postgres.feed, MODEL, make, maintain_every_s=0.01, snapshot_writer=snapshot_writer
    )


async def names(index: LogFollowingIndex) -> list[str]:
    asked = np.array([1, 0, 0, 0], np.float32)
    wanted = WantedNeighbours(ItemKind.SEGMENT, scope(), 100)
    answer = await index.search(asked, wanted, Deadline.after(60))
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
            return make is exact or any(tier.approximate for tier in index.tiers())

        assert await eventually(in_shape)

    await postgres.store.erase(TENANT, Selector(items=tuple(ids("00", "01"))))
    await postgres.store.write(TENANT, [segment("new")])
    await embed(postgres)
    caplog.set_level("INFO")

    async with index_over(postgres, make, tmp_path) as index:
        assert await index.ready(Deadline.after(30))
        assert await names(index) == [*(f"{n:02}" for n in range(2, 40)), "new"]
        assert await index.count(TENANT, [segment_id("00")]) == 0

    assert "index restored from a snapshot" in {record.message for record in caplog.records}


def files_with(text: str, folder: Path) -> list[str]:
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and text.encode() in path.read_bytes()
    ]


def snapshots_in(folder: Path) -> int:
    return len(list(folder.glob("*/*/manifest.json")))


def marked(**changes: object) -> Segment:
    """A segment with the mark in every field that an index holds."""
    fields = {"speaker": MARK, "session": MARK, "labels": {MARK: MARK}, "entities": (MARK,)}
    return segment(f"{MARK} id", f"{MARK} text", entity=f"{MARK} entity", **(fields | changes))


async def erase(postgres: Postgres) -> ConsistencyToken:
    receipt = await postgres.store.erase(TENANT, Selector(items=(marked().item,)))
    return receipt.token


async def hide(postgres: Postgres) -> ConsistencyToken:
    return (await postgres.store.write(TENANT, [marked(sensitive=True)])).token


async def hide_evidence(postgres: Postgres) -> ConsistencyToken:
    await hide(postgres)
    changed = fact(f"{MARK} fact", MARK, MARK, MARK, evidence=("hidden",))
    return (await postgres.store.write(TENANT, [changed])).token


@pytest.mark.parametrize("make", [exact, in_lists])
@pytest.mark.parametrize("remove", [erase, hide, hide_evidence])
async def test_no_snapshot_holds_what_was_erased_or_became_sensitive(
    postgres: Postgres,
    tmp_path: Path,
    make: Callable[[], IndexEngine],
    remove: Callable[[Postgres], Awaitable[ConsistencyToken]],
) -> None:
    about = fact(f"{MARK} fact", MARK, MARK, MARK, evidence=(marked().id,))
    hidden = segment("hidden", sensitive=True)
    await postgres.store.write(TENANT, [segment(f"{n:02}") for n in range(40)])
    await postgres.store.write(TENANT, [marked(), about, hidden])
    await embed(postgres)
    for _ in range(2):  # generations
        async with index_over(postgres, make, tmp_path) as index:
            assert await index.ready(Deadline.after(30))
            await postgres.store.write(TENANT, [segment("other", "another text")])
            await embed(postgres)
    assert "rows.npz" in files_with(MARK, tmp_path)

    async with index_over(postgres, make, tmp_path) as index:
        assert await index.ready(Deadline.after(30))
        token = await remove(postgres)
        await embed(postgres)

        assert await index.caught_up(token, Deadline.after(30))
        assert await index.outdated_snapshots(token, Deadline.after(30)) == 0
        assert files_with(MARK, tmp_path) == []

    assert snapshots_in(tmp_path) == 1
    assert files_with(MARK, tmp_path) == []


async def test_an_ordinary_write_deletes_no_snapshot(postgres: Postgres, tmp_path: Path) -> None:
    await postgres.store.write(TENANT, [segment("a"), segment("b", sensitive=True)])
    await embed(postgres)
    async with index_over(postgres, exact, tmp_path) as index:
        assert await index.ready(Deadline.after(30))

    async with index_over(postgres, exact, tmp_path) as index:
        assert await index.ready(Deadline.after(30))
        receipt = await postgres.store.write(TENANT, [segment("a", "new"), segment("c")])
        await embed(postgres)
        assert await index.caught_up(receipt.token, Deadline.after(30))

        assert snapshots_in(tmp_path) == 1
