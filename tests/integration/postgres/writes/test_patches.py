"""Changes of one item at the same time, and what follows a change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.domain.budget import Deadline
from serving.domain.errors import ItemNotFoundError, VersionConflictError
from serving.domain.items.records import Item, Segment, fact_id, segment_id
from serving.pipeline.writes.ingest import Ingestor
from serving.pipeline.writes.patch import Patch, Patched, Patcher
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import bootstrap, embed, embedding_tasks, write
from tests.support.builders import NOON, TENANT, fact, segment

pytestmark = pytest.mark.postgres

A = segment_id("a")


def patcher(postgres: Postgres) -> Patcher:
    ingestor = Ingestor(postgres.store)
    return Patcher(postgres.store, ingestor, lambda: NOON)


async def stored(postgres: Postgres) -> list[Item]:
    return [*(await postgres.store.load(TENANT, [A], Deadline.after(60))).values()]


async def at_once(
    postgres: Postgres, changes: Sequence[Patch], **options: Any
) -> list[Patched | BaseException]:
    patches = (patcher(postgres).patch(TENANT, A, each, **options) for each in changes)
    return await asyncio.gather(*patches, return_exceptions=True)


async def test_of_patches_of_one_version_one_wins(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    titles = [str(place) for place in range(4)]

    ended = await at_once(postgres, [Patch(title=title) for title in titles], if_version=1)

    won = [each for each in ended if isinstance(each, Patched)]
    lost = [each for each in ended if isinstance(each, VersionConflictError)]
    assert (len(won), len(lost)) == (1, 3)
    assert {each.version for each in lost} == {2}
    assert await stored(postgres) == [won[0].item]


async def test_patches_without_version_are_all_stored(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    labels = {"one": "1", "two": "2", "three": "3"}

    ended = await at_once(postgres, [Patch(set_labels={k: v}) for k, v in labels.items()])

    assert all(isinstance(each, Patched) for each in ended)
    [found] = await stored(postgres)
    assert isinstance(found, Segment)
    assert (found.labels, found.version) == (labels, 4)


async def test_patch_never_brings_an_erased_item_back(postgres: Postgres) -> None:
    for place in range(8):
        await write(postgres, segment("a"))
        patch = patcher(postgres).patch(TENANT, A, Patch(title=str(place)))
        erasure = postgres.store.erase(TENANT, Selector(items=(A,)))

        patched, _ = await asyncio.gather(patch, erasure, return_exceptions=True)

        assert isinstance(patched, Patched | ItemNotFoundError)
        assert await stored(postgres) == []


async def test_only_a_new_text_is_embedded_again(postgres: Postgres) -> None:
    await write(postgres, segment("a"), fact("f", "Ann", "saw", "Goa"))
    await embed(postgres)

    await patcher(postgres).patch(TENANT, A, Patch(set_labels={"mood": "calm"}))
    assert await embedding_tasks(postgres) == []
    _, rows = await bootstrap(postgres)
    assert "l:mood=calm" in rows[TENANT, A].terms

    await patcher(postgres).patch(TENANT, A, Patch(text="We sailed to Rome."))
    await patcher(postgres).patch(TENANT, fact_id("f"), Patch(text="Ann saw Goa once."))
    _, rows = await bootstrap(postgres)
    assert (TENANT, A) not in rows
    texts = [task.text for task in await embedding_tasks(postgres)]
    assert sorted(texts) == ["Ann saw Goa once.", "We sailed to Rome."]
