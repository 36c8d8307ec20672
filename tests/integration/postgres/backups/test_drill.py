"""A drill: the sample is restored onto an empty machine, and answers as before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from serving.desk.embedded_neo4j import EmbeddedNeo4j
from serving.desk.embedded_postgres import EmbeddedPostgres
from tests.fixtures.local_service import answered, local_service
from tests.fixtures.postgres import QUICK
from tests.integration.postgres.backups.dumps import dump, files_with, restore, write_anew
from tests.support.commands import succeed
from trivium.aio import AsyncClient
from trivium.files.reading import read_items, read_questions
from trivium.files.records import Problem
from trivium.values import ItemState

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.release]

SAMPLE = Path(__file__).parents[4] / "serving/desk/sample"
DEEP = 50
ERASED = "turn-151"
"""The answer to one of the questions."""
ERASED_TEXT = "Boats make my stomach heave"

Answers = Mapping[str, list[str]]
"""The ids of the hits by question."""


def no_problem(problem: Problem) -> None:
    raise AssertionError(str(problem))


async def ingest_sample(memory: AsyncClient) -> str:
    files = [str(SAMPLE / name) for name in ("conversation.jsonl", "facts.jsonl")]
    items = [found.item for found in read_items(files, no_problem)]
    return (await memory.ingest_stream(items)).consistency_token


async def token_of_all(memory: AsyncClient) -> str:
    """The token of all that was restored, which is one write: an item that has not changed."""
    [item, *_] = read_items([str(SAMPLE / "facts.jsonl")], no_problem)
    written = await memory.ingest([item.item])
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


async def test_restored_machine_answers_as_before_without_erased_items(
    short_directory: Path, tmp_path: Path, jar_cache: Path
) -> None:
    first, second = short_directory / "first", short_directory / "second"
    backup, erased = tmp_path / "trivium.dump", str(tmp_path / "erasures.jsonl")
    with machine(first, jar_cache) as stores:
        async with local_service(*stores) as memory:
            token = await ingest_sample(memory)
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
