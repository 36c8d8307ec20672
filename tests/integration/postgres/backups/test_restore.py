"""The commands of docs/backups.md as an operator types them, and a drill with the sample."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.desk.embedded_neo4j import EmbeddedNeo4j
from serving.desk.embedded_postgres import EmbeddedPostgres, find_binaries
from serving.domain.items.records import segment_id
from serving.ports.memory_store import Selector
from tests.fixtures.local_service import answered, local_service
from tests.fixtures.postgres import QUICK
from tests.integration.postgres.log.following import MODEL, embed, project_graph, run, write
from tests.support.builders import TENANT, fact, segment
from tests.support.commands import succeed
from tests.support.sample import SAMPLE, no_problem, sample_items
from trivium.aio import AsyncClient
from trivium.files.reading import read_questions
from trivium.values import ItemState

pytestmark = pytest.mark.postgres


def dump(dsn: str, file: Path) -> None:
    _run("pg_dump", "--format=custom", f"--file={file}", dsn)


def restore(dsn: str, file: Path) -> None:
    owned = ["--no-owner", "--no-privileges", "--no-comments"]
    _run("pg_restore", "--single-transaction", *owned, f"--dbname={dsn}", str(file))


def write_anew(dsn: str) -> None:
    """Writes the files of the database anew, without what was erased."""
    empty = "SELECT oid FROM pg_class WHERE reltuples = 0"
    statements = [
        f"DELETE FROM pg_statistic WHERE starelid IN ({empty})",
        "VACUUM FULL pg_statistic",
        "SELECT pg_switch_wal()",
        "CHECKPOINT",
    ]
    _run("vacuumdb", "--full", "--analyze", dsn)
    _run("psql", dsn, *(f"--command={each}" for each in statements))


def _run(program: str, *arguments: str) -> None:
    subprocess.run([str(find_binaries() / program), *arguments], check=True)


def files_with(text: str, folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


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


DEEP = 50
ERASED = "turn-151"
"""The answer to one of the questions."""
ERASED_TEXT = "Boats make my stomach heave"

Answers = Mapping[str, list[str]]
"""The ids of the hits by question."""


async def token_of_all(memory: AsyncClient) -> str:
    """The token of all that was restored, which is one write: an item that has not changed."""
    [item, *_] = sample_items("facts")
    written = await memory.ingest([item])
    assert [each.state for each in written.outcomes] == [ItemState.UNCHANGED]
    return written.consistency_token


async def answers(memory: AsyncClient, token: str) -> Answers:
    """What each question of the sample finds, with all legs."""
    found = {}
    for question in read_questions(str(SAMPLE / "questions.jsonl"), no_problem):
        answer = await answered(memory, question.text, token, DEEP)
        found[question.text] = [ref.id for hit in answer.hits for ref in (hit.ref, *hit.folded)]
    return found


@contextmanager
def machine(data_dir: Path, jar_cache: Path) -> Iterator[tuple[str, str]]:
    with (
        EmbeddedPostgres(data_dir / "postgres", settings=QUICK) as dsn,
        EmbeddedNeo4j(data_dir / "neo4j", jar_cache) as uri,
    ):
        yield dsn, uri


@pytest.mark.neo4j
@pytest.mark.release
async def test_restored_machine_answers_as_before_without_erased_items(
    short_directory: Path, tmp_path: Path, jar_cache: Path
) -> None:
    first, second = short_directory / "first", short_directory / "second"
    backup, erased = tmp_path / "trivium.dump", str(tmp_path / "erasures.jsonl")
    with machine(first, jar_cache) as stores:
        async with local_service(*stores) as memory:
            token = (await memory.ingest_stream(sample_items())).consistency_token
            with_erased = await answers(memory, token)
            dump(stores[0], backup)
            await memory.forget(segment_ids=[ERASED])
            before = await answers(memory, token)
            await succeed("erasures", "export", erased, dsn=stores[0], uri=stores[1])

    with machine(second, jar_cache) as stores:
        restore(stores[0], backup)
        assert files_with(ERASED_TEXT, second)
        applied = await succeed("erasures", "apply", erased, dsn=stores[0], uri=stores[1])
        write_anew(stores[0])
        left = files_with(ERASED_TEXT, second)
        async with local_service(*stores) as memory:
            after = await answers(memory, await token_of_all(memory))
            await succeed("verify", dsn=stores[0], uri=stores[1])
            receipt = await memory.forget(segment_ids=[ERASED])
    assert any(ERASED in found for found in with_erased.values())
    assert applied == "1 items erased again\n"
    assert left == []
    assert after == before
    assert not any(ERASED in found for found in after.values())
    assert receipt.verified
    assert not any(store.removed_count for store in receipt.receipts)
