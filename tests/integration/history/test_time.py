"""What is true, and what was known of it: asked of the whole service, over the real stores."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.fixtures.local_service import local_service
from tests.integration.history.moves import day, lives_in
from trivium import Fact, Segment
from trivium.aio import AsyncClient
from trivium.files.reading import read_items
from trivium.values import LegState

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[3]
ASKED = "Where does Nora live?"


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
        ASKED, profile="facts", consistency_token=token, as_of=as_of, known_at=known_at, timeout=30
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


async def test_fact_reopens_after_erasure_of_its_closer(memory: AsyncClient) -> None:
    await memory.ingest([LEEDS, YORK])
    forgotten = await memory.forget(fact_ids=["york"])

    assert await facts_shown(memory, forgotten.consistency_token) == ["leeds"]


async def test_the_history_is_listed_with_what_closed_what(memory: AsyncClient) -> None:
    await memory.ingest([YORK, LEEDS])

    history = {fact.id: fact async for fact in memory.list_facts(entities=["nora"])}
    then = [fact.id async for fact in memory.list_facts(valid_at=day(50))]

    (closing,) = history["leeds"].closings
    assert (closing.fact_id, closing.at, closing.recorded_at) == ("york", day(100), day(110))
    assert (history["york"].single_valued, history["york"].closings) == (True, ())
    assert then == ["leeds"]


async def test_segments_recorded_later_are_hidden_on_every_leg(memory: AsyncClient) -> None:
    written = await memory.ingest([replace(SAID, entities=("Nora", "York"))])

    before = await memory.retrieve(
        "Nora moved to York", consistency_token=written.consistency_token, known_at=day(200)
    )
    after = await memory.retrieve(
        "Nora moved to York",
        consistency_token=written.consistency_token,
        known_at=datetime.now(UTC) + timedelta(hours=1),
    )

    assert before.hits == ()
    assert [hit.id for hit in after.hits] == ["t1"]


def documented_example() -> tuple[str, list[list[str]]]:
    """The lines to ingest, and rows of as_of, known_at and what is shown."""
    _, example = (ROOT / "docs/time.md").read_text().split("## An example")
    lines = example.split("```json\n")[1].split("```")[0]
    cells = [re.split(r" ?\| ?", row)[1:4] for row in example.splitlines() if row.startswith("|")]
    return lines, [row for row in cells if row[0][:1] not in ("`", "-")]


def instant(date: str) -> datetime | None:
    return datetime.fromisoformat(date).replace(tzinfo=UTC) if date else None


async def test_the_documented_example_is_what_the_service_shows(
    memory: AsyncClient, tmp_path: Path
) -> None:
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


async def test_a_fact_that_closes_itself_is_refused(memory: AsyncClient) -> None:
    (outcome,) = (await memory.ingest([replace(LEEDS, closes=("york", "leeds"))])).rejected

    assert [field for field, _ in outcome.violations] == ["items[0].fact.closes[1]"]
