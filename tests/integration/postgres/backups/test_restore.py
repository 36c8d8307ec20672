"""`pg_restore` and `python -m serving erasures apply`, as an operator types them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from serving.__main__ import main
from serving.adapters.postgres.assembly import Postgres
from serving.domain.items.records import segment_id
from serving.ports.memory_store import Selector
from tests.integration.postgres.backups.dumps import dump, restore
from tests.integration.postgres.log.following import MODEL, embed, project_graph
from tests.support.builders import TENANT, batch_of, fact, segment

pytestmark = pytest.mark.postgres


async def erasures(dsn: str, command: str, file: Path) -> Result:
    arguments = ["erasures", command, str(file)]
    env = {"TRIVIUM_POSTGRES__DSN": dsn}
    result = await asyncio.to_thread(CliRunner().invoke, main, arguments, env=env)
    assert result.exit_code == 0, result.output
    return result


async def test_restore_into_the_same_cluster_begins_a_log(
    postgres: Postgres, empty_dsn: str, tmp_path: Path
) -> None:
    first = await postgres.store.write(batch_of(segment("a"), fact("f", "x", "y", "z")))
    await embed(postgres)
    await project_graph(postgres)
    dump(postgres.database.dsn, tmp_path / "dump")
    await erasures(postgres.database.dsn, "export", tmp_path / "erasures")

    restore(empty_dsn, tmp_path / "dump")
    await erasures(empty_dsn, "apply", tmp_path / "erasures")

    async with Postgres(empty_dsn) as copy:
        again = await copy.store.write(batch_of(segment("a"), fact("f", "x", "y", "z")))
        assert again.outcomes == ["unchanged", "unchanged"]
        assert again.token.epoch != first.token.epoch
        assert await embed(copy, MODEL) == []  # the vectors came along
        changes = await project_graph(copy)  # the graph's position did not
        assert (len(changes.segments), len(changes.facts)) == (1, 1)


async def test_item_erased_after_the_dump_is_erased_again(
    postgres: Postgres, empty_dsn: str, tmp_path: Path
) -> None:
    await postgres.store.write(batch_of(segment("a"), segment("b")))
    dump(postgres.database.dsn, tmp_path / "dump")
    await postgres.store.erase(TENANT, Selector(items=(segment_id("a"),)))
    await erasures(postgres.database.dsn, "export", tmp_path / "erasures")
    restore(empty_dsn, tmp_path / "dump")
    assert stored(empty_dsn) == {"a", "b"}

    applied = await erasures(empty_dsn, "apply", tmp_path / "erasures")

    assert applied.output == "1 items erased again\n"
    assert stored(empty_dsn) == {"b"}


async def test_restored_words_have_statistics(
    postgres: Postgres, empty_dsn: str, tmp_path: Path
) -> None:
    await postgres.store.write(batch_of(segment("a", "The boat is blue.")))
    dump(postgres.database.dsn, tmp_path / "dump")
    await erasures(postgres.database.dsn, "export", tmp_path / "erasures")

    restore(empty_dsn, tmp_path / "dump")
    await erasures(empty_dsn, "apply", tmp_path / "erasures")

    with psycopg.connect(empty_dsn) as connection:
        rows = connection.execute("SELECT reltuples FROM pg_class WHERE relname = 'segment'")
        assert rows.fetchone() == (1,)


def stored(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        return {id_ for (id_,) in connection.execute("SELECT id FROM segment").fetchall()}
