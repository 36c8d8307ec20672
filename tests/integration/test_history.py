"""What is true, and what was known of it: asked of the whole service, and in an export."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.rows import dict_row

from tests.fixtures.local_service import answered, local_address, local_service
from tests.support.tracked_files import ROOT
from trivium import AsyncClient, Fact, Item, Segment
from trivium.cli.app import trivium
from trivium.files.reading import read_items
from trivium.values import ItemState, LegState

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.neo4j,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("prepared_graph"),
]


BEGUN = datetime(2024, 1, 1, 8, 30, 0, 123_456, tzinfo=UTC)


def day(count: float) -> datetime:
    return BEGUN + timedelta(days=count)


def of_nora(id_: str, relation: str, object_: str, **fields: Any) -> Fact:
    return Fact(id=id_, subject="Nora", relation=relation, object=object_, **fields)


def lives_in(object_: str, since: float, known: float, **fields: Any) -> Fact:
    """A fact that ends the one before it; `since` and `known` are days."""
    times = {"valid_from": day(since), "recorded_at": day(known)}
    return of_nora(object_.lower(), "lives in", object_, single_valued=True, **times, **fields)


QUESTION = "Where does Nora live?"


LEEDS, YORK = lives_in("Leeds", 0, 1), lives_in("York", 100, 110)
MOVED = replace(
    YORK, id="moved", relation="moved to", single_valued=False, closes=("leeds",), evidence=("t1",)
)
SAID = Segment(id="t1", speaker="Nora", text="We moved to York.", event_time=day(100))


@pytest.fixture
async def memory(postgres_dsn: str, neo4j_uri: str) -> AsyncIterator[AsyncClient]:
    async with local_service(postgres_dsn, neo4j_uri) as client:
        yield client


async def facts_shown(
    memory: AsyncClient, token: str, as_of: datetime | None = None, known_at: datetime | None = None
) -> list[str]:
    """The ids of the facts of the answer, best first."""
    answer = await memory.retrieve(
        QUESTION,
        profile="facts",
        consistency_token=token,
        as_of=as_of,
        known_at=known_at,
        timeout=30,
    )
    assert {r.leg: (r.state, r.reason) for r in answer.leg_reports if r.state != LegState.OK} == {}
    return [hit.id for hit in answer.hits if isinstance(hit.item, Fact)]


@pytest.mark.parametrize("closer", [YORK, MOVED], ids=["one value", "named"])
@pytest.mark.parametrize("closer_first", [False, True])
async def test_only_as_of_ranks_closed_fact_first(
    memory: AsyncClient, closer: Fact, closer_first: bool
) -> None:
    for item in [closer, LEEDS] if closer_first else [LEEDS, closer]:
        written = await memory.ingest([SAID, item])
    token = written.consistency_token

    assert await facts_shown(memory, token) == [closer.id]
    assert await facts_shown(memory, token, as_of=day(99)) == ["leeds"]
    assert await facts_shown(memory, token, as_of=day(105), known_at=day(109)) == ["leeds"]
    assert await facts_shown(memory, token, as_of=day(105), known_at=day(110)) == [closer.id]
    assert await facts_shown(memory, token, as_of=day(105), known_at=day(0)) == []


async def test_history_is_listed_with_closing_facts(memory: AsyncClient) -> None:
    await memory.ingest([YORK, LEEDS])

    history = {fact.id: fact async for fact in memory.list_facts(entities=["nora"])}
    then = [fact.id async for fact in memory.list_facts(valid_at=day(50))]

    (closing,) = history["leeds"].closings
    assert (closing.fact_id, closing.at, closing.recorded_at) == ("york", day(100), day(110))
    assert (history["york"].single_valued, history["york"].closings) == (True, ())
    assert then == ["leeds"]


def documented_example() -> tuple[str, list[list[str]]]:
    """The lines to ingest, and rows of as_of, known_at and what is shown."""
    _, example = (ROOT / "docs/time.md").read_text().split("## An example")
    lines = example.split("```json\n")[1].split("```")[0]
    cells = [re.split(r" ?\| ?", row)[1:4] for row in example.splitlines() if row.startswith("|")]
    return lines, [row for row in cells if row[0][:1] not in ("`", "-")]


def instant(date: str) -> datetime | None:
    return datetime.fromisoformat(date).replace(tzinfo=UTC) if date else None


async def test_documented_example_equals_the_answer(memory: AsyncClient, tmp_path: Path) -> None:
    lines, answers = documented_example()
    file = tmp_path / "facts.jsonl"
    file.write_text(lines)
    token = (
        await memory.ingest([found.item for found in read_items([str(file)], print)])
    ).consistency_token

    for as_of, known_at, expected in answers:
        shown = await facts_shown(memory, token, instant(as_of), instant(known_at))
        assert (as_of, known_at, " ".join(shown)) == (as_of, known_at, expected)
    assert len(answers) == 6


ORIGINAL, COPY = "the original", "the copy"
FILES = ("segments", "facts")


TURN = Segment(
    id="t1", text="Nora lives in Leeds.", speaker="Nora", event_time=day(0), entities=("Nora",)
)
ODD = Segment(
    id='odd "id" / \\ = 🏖️',
    text=' \t"Zoë"\u2028said:\r\n{curly} \\n 100 % 🏖️ \u202bאב\u202c e\u0301  ',
    title="A = B",
    kind="note",
    speaker="Zoë = 1",
    session="s=1",
    event_time=day(1),
    importance=0.0,
    labels={"a=b": "c=d", "=": "=", "empty": "", 'q"': "'\\"},
    entities=("Goa", "back\\slash", '"', "🏖️"),
    entity="Zoë",
    keywords=("yacht = boat", "a\u2028b"),
)
SENSITIVE = Segment(
    id="secret", text="Nora's code is 1234.", event_time=day(2), sensitive=True, entities=("Nora",)
)
GONE = Segment(id="gone", text="Nora lives by the sea.", event_time=day(2), entities=("Nora",))
UNDATED = Segment(id="undated", text="Nora lives alone.", entities=("Nora",))
BARE = Segment(id="bare", text="We met Nora in York.", speaker="Idris", event_time=day(3))

GOA = lives_in("Goa", 200, 210, weight=0.25, evidence=("t1",))
FACTS = (
    lives_in("Leeds", 0, 1, evidence=("t1",)),
    lives_in("York", 100, 110, evidence=("t1",)),
    replace(GOA, retracted_at=day(220), sentence="Nora lives in Goa = \u2028 “sun”."),
    of_nora("ended", "works at", "Acme", valid_from=day(0), valid_to=day(50), recorded_at=day(0)),
    of_nora("quit", "quit", "Acme", recorded_at=day(40), closes=("ended", "not there")),
    of_nora("observed", "observation", "sings", recorded_at=day(1)),
    Fact(id="named", subject="t1", relation="mentions", object="Goa", recorded_at=day(1)),
    of_nora("hidden", "uses", "1234", recorded_at=day(2), evidence=("secret",)),
    of_nora("less", "has", "a view", evidence=("gone", "t1")),
    of_nora("undated", "likes", "Goa"),
    of_nora("erased", "swims", "daily", evidence=("gone",)),
)
EARLY: list[Item] = [TURN, ODD, SENSITIVE, GONE, GOA]
LATER: list[Item] = [UNDATED, BARE, *FACTS]
HASHED_ANEW = {
    ("segment", "undated"),
    ("segment", "bare"),
    ("fact", "undated"),
    ("fact", "observed"),
    ("fact", "less"),
}
"""No client sent them as they are: the service set the time, the entities or the sentence, or
evidence was erased."""


class Memories(NamedTuple):
    """The address of a service, and a client of a tenant and of its copy."""

    address: str
    original: AsyncClient
    copy: AsyncClient


@pytest.fixture
async def memories(postgres_dsn: str, neo4j_uri: str) -> AsyncIterator[Memories]:
    async with (
        local_address(postgres_dsn, neo4j_uri) as address,
        AsyncClient(address, tenant=ORIGINAL, timeout=10) as original,
    ):
        yield Memories(address, original, original.for_tenant(COPY))


async def run(memories: Memories, tenant: str, *words: str) -> str:
    """The output of `trivium`."""
    options = ["--address", memories.address, "--tenant", tenant]
    done = await asyncio.to_thread(CliRunner().invoke, trivium, [*options, *words])
    assert done.exit_code == 0, done.output
    return done.stdout


async def store_files(memories: Memories, tenant: str, folder: Path) -> list[dict[str, Any]]:
    option = ("--text-search-config", "german")
    outputs = [
        await run(memories, tenant, "ingest", "--json", *option, str(folder / f"{name}.jsonl"))
        for name in FILES
    ]
    return [json.loads(output)["stored"][0]["result"] for output in outputs]


def rows(dsn: str, tenant: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What the tables have of a tenant, but keys and what no question sees of writes.

    That are their times and versions, and whether the service found the entities, which an export
    brings as given.
    """
    found = {}
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        for kind, unseen in (("segment", ("extracted",)), ("fact", ("created_at",))):
            of_tenant = "WHERE tenant_id = (SELECT id FROM tenant WHERE name = %s)"
            for row in connection.execute(f"SELECT * FROM {kind} {of_tenant}".encode(), [tenant]):
                for name in ("key", "tenant_id", "written_xid", "updated_at", "version", *unseen):
                    del row[name]
                found[kind, row["id"]] = row
    return found


async def shown(memory: AsyncClient, **clocks: datetime | None) -> list[str]:
    """The ids of the hits of an answer of all legs."""
    options: Any = {"limit": 50, "profile_overrides": {"fold_repeats": False}, **clocks}
    answer = await memory.retrieve(QUESTION, **options)
    assert answer.complete
    return [hit.id for hit in answer.hits]


async def test_stored_export_keeps_hashes_times_and_history(
    memories: Memories, postgres_dsn: str, tmp_path: Path
) -> None:
    original, copy = memories.original, memories.copy
    assert not (await original.ingest(EARLY, text_search_config="german")).rejected
    (early,) = (await original.get_segments([TURN.id])).segments
    assert not (await original.ingest(LATER)).rejected
    forgotten = await original.forget(segment_ids=[GONE.id])
    exported, again = tmp_path / "exported", tmp_path / "again"

    told = await run(memories, ORIGINAL, "export", str(exported))
    stored = await store_files(memories, COPY, exported)
    await run(memories, COPY, "export", str(again))

    assert "--text-search-config german" in told
    assert [each["created_count"] for each in stored] == [5, 10]
    for name in FILES:
        assert (again / f"{name}.jsonl").read_text() == (exported / f"{name}.jsonl").read_text()

    before, after = rows(postgres_dsn, ORIGINAL), rows(postgres_dsn, COPY)
    hashes = [{name: row.pop("content_hash") for name, row in of.items()} for of in (before, after)]
    assert {name for name in before if hashes[0][name] != hashes[1][name]} == HASHED_ANEW
    after["fact", "observed"]["sentence"] = ""
    assert after == before

    await answered(original, QUESTION, forgotten.consistency_token)
    await answered(copy, QUESTION, stored[-1]["consistency_token"])
    assert early.created_at is not None
    for as_of in (day(20), day(150), day(215), None):
        for known_at in (day(30), early.created_at, None):
            then = await shown(original, as_of=as_of, known_at=known_at)
            assert await shown(copy, as_of=as_of, known_at=known_at) == then, (as_of, known_at)
    known_early = await shown(copy, known_at=early.created_at)
    assert (TURN.id in known_early, BARE.id in known_early) == (True, False)


async def test_repeated_write_of_an_export_changes_nothing(
    memories: Memories, tmp_path: Path
) -> None:
    everything = [item for item in (*EARLY, *LATER) if item is not GOA]
    await memories.original.ingest(everything, text_search_config="german")
    await run(memories, ORIGINAL, "export", str(tmp_path))

    stored = await store_files(memories, ORIGINAL, tmp_path)
    await store_files(memories, COPY, tmp_path)
    sent_again = await memories.copy.ingest(everything)

    assert [each["unchanged_count"] for each in stored] == [6, 11]
    assert {outcome.state for outcome in sent_again.outcomes} == {ItemState.UNCHANGED}
