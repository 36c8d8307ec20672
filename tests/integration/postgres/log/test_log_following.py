"""An index that follows the log of PostgreSQL under writes."""

from __future__ import annotations

import asyncio

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.vector_index import ExactIndex
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import segment_id
from serving.pipeline.index import log_following
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.ports.memory_store import Batch, Selector
from tests.integration.postgres.log.following import MODEL, embed
from tests.support.builders import TENANT, batch_of, ids, segment
from tests.support.examples import examples

pytestmark = pytest.mark.postgres

WRITERS, ROWS, AT_ONCE = 6, examples(4000), 200


async def test_a_tail_misses_nothing_of_six_writers(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24,000 rows with --all; meanwhile every third is rewritten and every tenth erased."""
    erased = {f"{writer}-{place}" for writer in range(WRITERS) for place in range(0, ROWS, 10)}
    written = {f"{writer}-{place}" for writer in range(WRITERS) for place in range(ROWS)}

    async def work(writer: int) -> ConsistencyToken:
        for start in range(0, ROWS, AT_ONCE):
            places = range(start, start + AT_ONCE)
            await postgres.store.write(batch_of(*(segment(f"{writer}-{p}") for p in places)))
            again = [segment(f"{writer}-{p}", "other words") for p in places if p % 3 == 0]
            await postgres.store.write(Batch(TENANT, again))
            gone = tuple(segment_id(f"{writer}-{p}") for p in places if p % 10 == 0)
            token = (await postgres.store.erase(TENANT, Selector(items=gone))).token
        return token

    async def embed_all() -> None:
        while not all(writer.done() for writer in writers) or await embed(postgres, limit=2000):
            await embed(postgres, limit=2000)

    await embed(postgres)
    monkeypatch.setattr(log_following, "POLL_S", 0.01)
    index = LogFollowingIndex(postgres.feed, MODEL, lambda: ExactIndex(MODEL.dimension))
    async with asyncio.timeout(240), index, asyncio.TaskGroup() as tasks:
        assert await index.ready(Deadline.after(30))
        writers = [tasks.create_task(work(writer)) for writer in range(WRITERS)]
        await tasks.create_task(embed_all())
        for writer in writers:
            assert await index.caught_up(writer.result(), Deadline.after(60))

        status = await index.status()
        assert status.epoch == 1, "it began anew, which hides what it missed"
        assert status.vector_count == len(written - erased)
        assert await index.count(TENANT, ids(*(written - erased))) == len(written - erased)
