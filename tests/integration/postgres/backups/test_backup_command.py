"""`python -m serving backup` and `restore`, as an operator types them."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg.conninfo import make_conninfo

from serving.__main__ import main
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.dump import BackupError, back_up
from serving.desk.embedded_postgres import (
    PostgresStartError,
    find_client_programs,
)
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import segment_id
from serving.ports.memory_store import Selector
from tests.integration.postgres.log.following import MODEL, embed, project_graph
from tests.support.builders import TENANT, fact, segment

pytestmark = pytest.mark.postgres


def typed(dsn: str, *arguments: object) -> Result:
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(main, words, env={"TRIVIUM_POSTGRES__DSN": dsn})


async def command(dsn: str, *arguments: object) -> Result:
    return await asyncio.to_thread(typed, dsn, *arguments)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "backup.dump"


async def test_a_restored_database_has_all_rows_and_vectors_and_a_new_log(
    postgres: Postgres, empty_dsn: str, file: Path
) -> None:
    first = await postgres.store.write(TENANT, [segment("a"), fact("f", "x", "y", "z")])
    await embed(postgres)
    await project_graph(postgres)

    made = await command(postgres.database.dsn, "backup", file)
    restored = await command(empty_dsn, "restore", file)

    assert "2 items of 1 tenants" in made.output, made.output
    assert "2 items of 1 tenants restored" in restored.output, restored.output
    async with Postgres(empty_dsn) as copy:
        again = await copy.store.write(TENANT, [segment("a"), fact("f", "x", "y", "z")])
        assert again.outcomes == ["unchanged", "unchanged"]
        assert again.token.epoch != first.token.epoch
        assert await embed(copy, MODEL) == []  # the vectors came along
        changes = await project_graph(copy)  # the graph's position did not
        assert (len(changes.segments), len(changes.facts)) == (1, 1)


def test_a_backup_is_for_its_owner_alone_and_leaves_no_other_file(
    postgres_dsn: str, file: Path
) -> None:
    made = typed(postgres_dsn, "backup", file)

    assert made.exit_code == 0, made.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


async def test_the_consistency_point_lies_between_the_writes_before_and_after(
    postgres: Postgres, file: Path
) -> None:
    before = await postgres.store.write(TENANT, [segment("a")])
    made = await command(postgres.database.dsn, "backup", file)
    after = await postgres.store.write(TENANT, [segment("b")])

    point = ConsistencyToken.parse(made.output.split("consistency point: ")[1].split(";")[0])

    assert point.epoch == before.token.epoch
    assert max(before.token.xids) <= point.all_up_to < min(after.token.xids)


async def test_what_was_erased_after_the_backup_is_erased_again(
    postgres: Postgres, empty_dsn: str, file: Path, tmp_path: Path
) -> None:
    await postgres.store.write(TENANT, [segment("a"), segment("b")])
    await command(postgres.database.dsn, "backup", file)
    await postgres.store.erase(TENANT, Selector(items=(segment_id("a"),)))
    erasures = tmp_path / "erasures.jsonl"
    await command(postgres.database.dsn, "erasures", "export", erasures)

    restored = await command(empty_dsn, "restore", file, "--erasures", erasures)

    assert "1 items erased again" in restored.output, restored.output
    assert stored(empty_dsn) == {"b"}


def test_without_erasures_the_operator_is_told_what_is_back(
    postgres_dsn: str, empty_dsn: str, file: Path
) -> None:
    typed(postgres_dsn, "backup", file)

    restored = typed(empty_dsn, "restore", file)

    assert "erasures apply" in restored.output


async def test_a_database_that_is_not_empty_is_left_as_it_is(
    postgres: Postgres, file: Path
) -> None:
    await postgres.store.write(TENANT, [segment("a")])
    await command(postgres.database.dsn, "backup", file)
    await postgres.store.write(TENANT, [segment("b")])

    refused = await command(postgres.database.dsn, "restore", file)

    assert refused.exit_code == 1
    assert "the database is not empty (it has public.access_count" in refused.output
    assert stored(postgres.database.dsn) == {"a", "b"}


def test_a_backup_of_a_newer_program_is_refused(
    postgres_dsn: str, empty_dsn: str, file: Path
) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("UPDATE meta SET schema_version = 99")
    typed(postgres_dsn, "backup", file)

    refused = typed(empty_dsn, "restore", file)

    assert (refused.exit_code, is_empty(empty_dsn)) == (1, True)
    assert "the schema has version 99" in refused.output


def test_a_restore_that_fails_leaves_the_database_empty(
    postgres_dsn: str, empty_dsn: str, file: Path
) -> None:
    typed(postgres_dsn, "backup", file)
    file.write_bytes(file.read_bytes()[:-2000])

    failed = typed(empty_dsn, "restore", file)

    assert failed.exit_code == 1
    assert "pg_restore: error" in failed.output
    assert is_empty(empty_dsn)


def test_another_file_is_refused(empty_dsn: str, file: Path) -> None:
    file.write_text("no backup")

    refused = typed(empty_dsn, "restore", file)

    assert (refused.exit_code, is_empty(empty_dsn)) == (1, True)
    assert "does not appear to be a valid archive" in refused.output


def test_a_database_of_something_else_is_not_backed_up(empty_dsn: str, file: Path) -> None:
    nothing = typed(empty_dsn, "backup", file)
    assert "there is nothing to back up" in nothing.output

    with psycopg.connect(empty_dsn) as connection:
        connection.execute("CREATE TABLE meta (one int)")
    other = typed(empty_dsn, "backup", file)
    assert "it is not one of this service" in other.output


def test_a_file_that_exists_is_kept(postgres_dsn: str, file: Path) -> None:
    file.write_text("precious")

    refused = typed(postgres_dsn, "backup", file)

    assert refused.exit_code == 1
    assert "exists; choose another name" in refused.output
    assert file.read_text() == "precious"


def test_a_folder_that_is_missing_is_said(postgres_dsn: str, file: Path) -> None:
    refused = typed(postgres_dsn, "backup", file / "no" / "file")

    assert refused.exit_code == 1
    assert "cannot be written (No such file or directory)" in refused.output


def test_a_server_that_is_not_there_is_said_in_a_line(file: Path) -> None:
    refused = typed("host=/nowhere", "backup", file)

    assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    assert "PostgreSQL" in refused.output


def test_one_snapshot_is_dumped_and_no_password_is_among_the_arguments(
    postgres_dsn: str, file: Path, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    said = tmp_path / "said"
    script = programs / "pg_dump"
    script.write_text(
        f'#!/bin/sh\necho "$@" > {said}\n'
        f"""echo "$@" | sed -E "s/.*passfile='?([^' ]*).*/\\1/" | xargs cat >> {said}\n"""
    )
    script.chmod(0o700)

    back_up(make_conninfo(postgres_dsn, password="se:cr\\et"), file, programs)

    arguments, password = said.read_text().splitlines()
    assert "--snapshot=" in arguments
    assert "se:cr" not in arguments
    assert password == r"*:*:*:*:se\:cr\\et"


def test_programs_that_are_older_than_the_server_are_refused() -> None:
    assert (find_client_programs(15) / "pg_dump").exists()
    with pytest.raises(PostgresStartError, match="postgresql-client-99"):
        find_client_programs(99)


def test_a_program_that_fails_is_quoted(postgres_dsn: str, file: Path, tmp_path: Path) -> None:
    script = tmp_path / "pg_dump"
    script.write_text("#!/bin/sh\necho 'pg_dump: error: the disk is full' >&2; exit 1\n")
    script.chmod(0o700)

    with pytest.raises(BackupError, match="the disk is full"):
        back_up(postgres_dsn, file, tmp_path)

    assert not file.exists()


def stored(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        return {id_ for (id_,) in connection.execute("SELECT id FROM segment").fetchall()}


def is_empty(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return not found
