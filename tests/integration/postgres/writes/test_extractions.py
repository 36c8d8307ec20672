"""Facts read out of turns, over PostgreSQL: each text is read once, and erased ones leave none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from examples.english_facts import EnglishFacts
from serving.adapters.postgres.assembly import Postgres
from serving.domain.items.records import Fact, Segment, TenantName, segment_id
from serving.pipeline.writes.extraction import ExtractionLimits, ExtractionWork
from serving.pipeline.writes.ingest import Ingestor
from serving.pipeline.writes.projector import Projector
from serving.ports.memory_store import Batch, ExtractionProgress, Selector
from serving.ports.text_analysis import Conversation, Proposal, UnusableAnswerError
from tests.fakes.simulation.openai_api import CompletionsServer, answered, proposed, serving
from tests.integration.postgres.log.following import run
from tests.support.builders import A_DAY_LATER, NOON, TENANT, days, segment
from tests.support.commands import command

pytestmark = pytest.mark.postgres

OTHER = TenantName("other")


class WatchedRules(EnglishFacts):
    """The rules; remembers which turns it read, and does something before it answers.

    Args:
        unusable: It has no answer for turns that say this.
    """

    def __init__(self, unusable: str = "") -> None:
        self.read: list[str] = []
        self.shown: list[Conversation] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self._unusable = unusable

    async def extract(self, conversation: Conversation) -> Proposal:
        if self._unusable and any(self._unusable in turn.text for turn in conversation.turns):
            raise UnusableAnswerError("prose")
        self.read += [turn.id for turn in conversation.turns]
        self.shown.append(conversation)
        proposal = await super().extract(conversation)
        if self.meanwhile is not None:
            await self.meanwhile()
        return proposal


async def extract(postgres: Postgres, rules: WatchedRules) -> None:
    """Extracts step by step until nothing is left."""
    log = postgres.change_log
    work = ExtractionWork(
        log,
        postgres.store,
        postgres.extractions,
        rules,
        now=lambda: A_DAY_LATER,
        limits=ExtractionLimits(turns=2, before=2),
        report=lambda _: None,
    )
    async with log.leadership("extraction", None):
        projector = Projector(log, work)
        while await projector.step(None):
            pass


@pytest.fixture
def rules() -> WatchedRules:
    return WatchedRules()


def turn(id_: str, text: str, **fields: object) -> Segment:
    return segment(id_, text, **{"speaker": "Ann", "session": "s", **fields})


async def ingest(postgres: Postgres, *turns: Segment, tenant: TenantName = TENANT) -> None:
    await Ingestor(postgres.store).ingest(Batch(tenant, turns))


async def facts(postgres: Postgres, tenant: TenantName = TENANT) -> list[Fact]:
    return await postgres.catalog.list_facts(tenant, [], None, "", 100)


async def known(postgres: Postgres) -> list[str]:
    return sorted(each.statement for each in await facts(postgres) if each.retracted_at is None)


async def test_turns_become_facts_and_are_read_once(
    postgres: Postgres, rules: WatchedRules
) -> None:
    await ingest(postgres, turn("a", "I live in Rome."), turn("b", "I have a dog."))
    await extract(postgres, rules)
    first = await facts(postgres)

    await ingest(postgres, turn("c", "I moved to Paris.", event_time=NOON + days(1)))
    await ingest(postgres, turn("a", "I live in Rome."))
    await extract(postgres, rules)

    assert rules.read == ["a", "b", "c"]
    assert [each.id for each in rules.shown[-1].before] == ["a", "b"]
    assert await known(postgres) == ["Ann has a dog.", "Ann lives in Paris.", "Ann lives in Rome."]
    assert {each.evidence for each in first} == {("a",), ("b",)}
    home = {each.object: each for each in await facts(postgres) if each.single_valued}
    assert [closing.by for closing in home["Rome"].closings] == [home["Paris"].id]


async def test_log_read_again_calls_no_extractor(postgres: Postgres, rules: WatchedRules) -> None:
    await ingest(postgres, turn("a", "I live in Rome."))
    await extract(postgres, rules)
    await run(postgres, "DELETE FROM projection_state")

    await extract(postgres, rules)

    assert rules.read == ["a"]


async def test_a_stop_between_two_requests_loses_and_repeats_nothing(
    postgres: Postgres, rules: WatchedRules
) -> None:
    await ingest(postgres, *(turn(f"t{n}", f"I have {n} dogs.") for n in range(4)))

    async def stop() -> None:
        if len(rules.shown) == 2:
            raise asyncio.CancelledError

    rules.meanwhile = stop
    with pytest.raises(asyncio.CancelledError):
        await extract(postgres, rules)
    rules.meanwhile = None
    await extract(postgres, rules)

    assert rules.read == ["t0", "t1", "t2", "t3", "t2", "t3"]
    assert len(await known(postgres)) == 4


async def test_sensitive_turns_are_not_read_and_not_shown(
    postgres: Postgres, rules: WatchedRules
) -> None:
    await ingest(
        postgres,
        turn("secret", "I have a PIN.", sensitive=True),
        turn("a", "I live in Rome.", event_time=NOON + days(1)),
    )

    await extract(postgres, rules)

    assert rules.read == ["a"]
    assert rules.shown[0].before == ()
    assert await known(postgres) == ["Ann lives in Rome."]
    assert await postgres.extractions.progress() == ExtractionProgress(turns=1, read=1, failed=0)


async def test_facts_on_sensitive_evidence_are_not_shown(
    postgres: Postgres, rules: WatchedRules
) -> None:
    await ingest(postgres, turn("a", "I live in Rome."), turn("b", "I have a dog."))
    await extract(postgres, rules)
    await ingest(postgres, turn("a", "I live in Rome.", sensitive=True))
    await ingest(postgres, turn("c", "I own a boat.", event_time=NOON + days(1)))

    await extract(postgres, rules)

    assert [each.statement for each in rules.shown[-1].facts] == ["Ann has a dog."]


SAID = turn("a", "I live in Rome.")


@pytest.mark.parametrize(
    ("now", "known_now"),
    [
        (None, []),
        (replace(SAID, sensitive=True), []),
        (replace(SAID, text="I live in Oslo."), ["Ann lives in Oslo."]),
    ],
    ids=["erased", "sensitive", "changed"],
)
async def test_turn_changed_during_extraction_stores_no_fact(
    postgres: Postgres,
    rules: WatchedRules,
    now: Segment | None,
    known_now: list[str],
) -> None:
    await ingest(postgres, SAID, turn("b", "I have a dog."))

    async def meanwhile() -> None:
        rules.meanwhile = None
        if now is None:
            await postgres.store.erase(TENANT, Selector(items=(SAID.item,)))
        else:
            await ingest(postgres, now)

    rules.meanwhile = meanwhile
    await extract(postgres, rules)

    assert await known(postgres) == ["Ann has a dog.", *known_now]
    assert all(each.retracted_at is None for each in await facts(postgres))


async def test_fact_missing_from_changed_turn_is_retracted(
    postgres: Postgres, rules: WatchedRules
) -> None:
    await ingest(postgres, turn("a", "I have a dog. I own a boat."), turn("b", "I have a cat."))
    await extract(postgres, rules)

    await ingest(postgres, turn("a", "I have a dog. I own a bike."))
    await extract(postgres, rules)

    assert await known(postgres) == ["Ann has a cat.", "Ann has a dog.", "Ann owns a bike."]
    assert len(await facts(postgres)) == 4


async def test_erased_turn_takes_its_facts(postgres: Postgres, rules: WatchedRules) -> None:
    await ingest(postgres, turn("a", "I live in Rome."))
    await extract(postgres, rules)

    await postgres.store.erase(TENANT, Selector(items=(segment_id("a"),)))

    assert await facts(postgres) == []
    assert await run(postgres, "SELECT FROM extraction") == []


async def test_tenants_do_not_see_or_change_each_other(
    postgres: Postgres, rules: WatchedRules
) -> None:
    await ingest(postgres, turn("a", "I live in Oslo."), turn("b", "Hi!"), tenant=OTHER)
    await extract(postgres, rules)
    await ingest(postgres, turn("a", "I live in Rome."), turn("b", "I own a boat."))
    await extract(postgres, rules)
    assert rules.shown[-1].facts == ()

    await ingest(postgres, turn("a", "I have a cat."), turn("c", "Hi!", event_time=NOON + days(1)))
    await extract(postgres, rules)
    assert [each.text for each in rules.shown[-1].before] == []
    later = turn("c", "And?", event_time=NOON + days(1))
    before = await postgres.extractions.before(TENANT, later, 10)
    assert [each.text for each in before] == ["I have a cat.", "I own a boat."]

    await ingest(postgres, turn("d", "I own a bike.", event_time=NOON + days(2)))
    await ingest(postgres, turn("d", "I own a bike."), tenant=OTHER)

    async def meanwhile() -> None:
        rules.meanwhile = None
        await postgres.store.erase(TENANT, Selector(items=(segment_id("d"),)))

    rules.meanwhile = meanwhile
    await extract(postgres, rules)

    assert await known(postgres) == ["Ann has a cat.", "Ann owns a boat."]
    assert len(await facts(postgres)) == 3
    of_other = await facts(postgres, OTHER)
    assert {each.statement for each in of_other} == {"Ann lives in Oslo.", "Ann owns a bike."}
    assert all(each.retracted_at is None for each in of_other)


async def test_turn_without_usable_answer_can_be_retried(
    postgres: Postgres, rules: WatchedRules
) -> None:
    await ingest(postgres, turn("a", "I have a bad dog."), turn("b", "I own a boat.", session="t"))
    await extract(postgres, WatchedRules(unusable="bad"))

    (letter,) = await postgres.catalog.dead_letters(TENANT, 10)
    assert (letter.projection, letter.item.id) == ("extraction", "a")
    assert letter.reason == "unusable answer: prose"
    statuses = {each.projection: each for each in await postgres.change_log.status(None)}
    assert statuses["extraction"].dead_letter_count == 1
    assert await postgres.extractions.progress() == ExtractionProgress(turns=2, read=1, failed=1)

    assert await postgres.extractions.read_failed_again() == 1
    await extract(postgres, rules)

    assert rules.read == ["a"]
    assert await postgres.catalog.dead_letters(TENANT, 10) == []
    assert await known(postgres) == ["Ann has a bad dog.", "Ann owns a boat."]


async def test_extraction_is_reported_only_once_it_ran(
    postgres: Postgres, rules: WatchedRules
) -> None:
    await ingest(postgres, turn("a", "I live in Rome."))
    assert [each.projection for each in await postgres.change_log.status(None)] == ["graph"]

    await extract(postgres, rules)
    await ingest(postgres, turn("b", "I live in Oslo."))

    statuses = {each.projection: each.pending for each in await postgres.change_log.status(None)}
    assert statuses["extraction"] == 1


# ---------------------------------------------------------------- the command


def by_api(server: CompletionsServer) -> dict[str, str]:
    return {
        "TRIVIUM_EXTRACTION__API__URL": server.url,
        "TRIVIUM_EXTRACTION__API__MODEL": "some-model",
        "TRIVIUM_EXTRACTION__TURNS": "1",
    }


async def test_command_extracts_waiting_turns_once(postgres: Postgres, postgres_dsn: str) -> None:
    await ingest(
        postgres,
        turn("a", "I live in Paris."),
        turn("b", "My PIN is 1234.", sensitive=True),
        turn("c", "I bought a boat.", event_time=NOON + timedelta(minutes=1)),
    )
    async with serving(CompletionsServer()) as server:
        # The second request shows the first turn as t1 too, so both give the same fact of it.
        server.content = answered(proposed(), proposed(evidence=["t9"]))
        said = await command("extract", dsn=postgres_dsn, **by_api(server))
        asked = len(server.bodies)
        again = await command("extract", dsn=postgres_dsn, **by_api(server))

        assert said.exit_code == 0, said.output
        assert "2 of 2 turns read, 0 failed" in said.output
        assert "facts accepted: 1" in said.output
        assert "facts refused for its evidence: 3" in said.output
        assert "tokens: 600 sent, 40 received" in said.output
        assert "1234" not in str(server.bodies)
        assert (asked, len(server.bodies)) == (2, 2)
        assert "2 of 2 turns read" in again.output


async def test_the_command_shows_answers_that_it_cannot_use(
    postgres: Postgres, postgres_dsn: str
) -> None:
    await ingest(postgres, turn("a", "I live in Paris."))
    async with serving(CompletionsServer()) as server:
        server.content = "Ann lives in Paris."
        said = await command("extract", dsn=postgres_dsn, **by_api(server))
        server.content = answered(proposed())
        again = await command("extract", "--failed", dsn=postgres_dsn, **by_api(server))

    assert "turns not read, unusable answer (prose): 1" in said.output
    assert "1 turns that failed are read again" in again.output
    assert "facts accepted: 1" in again.output


async def test_command_names_missing_settings_of_the_extractor(postgres_dsn: str) -> None:
    nothing = await command("extract", dsn=postgres_dsn)
    async with serving(CompletionsServer()) as server:
        missing = {"TRIVIUM_EXTRACTION__API__KEY_FILE": "/missing/key"}
        no_key = await command("extract", dsn=postgres_dsn, **by_api(server), **missing)

    assert (nothing.exit_code, no_key.exit_code) == (1, 1)
    assert "set TRIVIUM_EXTRACTION__API__URL" in nothing.output
    assert no_key.output.startswith("Error: ")
    assert "'/missing/key'" in no_key.output
