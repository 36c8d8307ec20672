"""`pg_restore` and `trivium-server erasures apply`, as an operator types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.domain.items.records import segment_id
from serving.ports.memory_store import Selector
from tests.integration.postgres.backups.dumps import dump, restore
from tests.integration.postgres.log.following import MODEL, embed, project_graph, run, write
from tests.support.builders import TENANT, fact, segment
from tests.support.commands import succeed

pytestmark = pytest.mark.postgres


async def test_restore_into_the_same_cluster_begins_a_log(
    postgres: Postgres, empty_dsn: str, tmp_path: Path
) -> None:
    first = await write(postgres, segment("a"), fact("f", "x", "y", "z"))
    await embed(postgres)
    await project_graph(postgres)
    dump(postgres.database.dsn, tmp_path / "dump")
    await succeed("erasures", "export", str(tmp_path / "erasures"), dsn=postgres.database.dsn)

    restore(empty_dsn, tmp_path / "dump")
    await succeed("erasures", "apply", str(tmp_path / "erasures"), dsn=empty_dsn)

    async with Postgres(empty_dsn) as copy:
        counted = "SELECT reltuples FROM pg_class WHERE relname = 'segment'"
        assert await run(copy, counted) == [(1,)], "the planner has statistics"
        again = await write(copy, segment("a"), fact("f", "x", "y", "z"))
        assert again.outcomes == ["unchanged", "unchanged"]
        assert again.token.epoch != first.token.epoch
        assert await embed(copy, MODEL) == []  # the vectors came along
        changes = await project_graph(copy)  # the graph's position did not
        assert (len(changes.segments), len(changes.facts)) == (1, 1)


async def test_item_erased_after_the_dump_is_erased_again(
    postgres: Postgres, empty_dsn: str, tmp_path: Path
) -> None:
    async def stored() -> list[tuple[str]]:
        async with Postgres(empty_dsn) as copy:
            return await run(copy, "SELECT id FROM segment ORDER BY id")

    await write(postgres, segment("a"), segment("b"))
    dump(postgres.database.dsn, tmp_path / "dump")
    await postgres.store.erase(TENANT, Selector(items=(segment_id("a"),)))
    await succeed("erasures", "export", str(tmp_path / "erasures"), dsn=postgres.database.dsn)
    restore(empty_dsn, tmp_path / "dump")
    assert await stored() == [("a",), ("b",)]

    applied = await succeed("erasures", "apply", str(tmp_path / "erasures"), dsn=empty_dsn)

    assert applied == "1 items erased again\n"
    assert await stored() == [("b",)]
