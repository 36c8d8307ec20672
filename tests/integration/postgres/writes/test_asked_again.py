"""What was erased is found by no id, text or vector, in no leg, and after no rebuild."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from serving.config.profiles import ProfileBook
from serving.domain.budget import Deadline
from tests.fakes.meaning import FakeEmbedder
from tests.fixtures.local_service import answered, local_service
from tests.support.commands import succeed
from trivium import Fact, Filter, Retrieval, Segment
from trivium.aio import AsyncClient
from trivium.tuning import Loss
from trivium.values import ItemState, LookupKey

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]

SAID = Segment(
    id="erased-turn",
    text="We moor the boat in Ostia on 3 May 2026.",
    speaker="Mara",
    session="harbour",
    labels={"topic": "boat"},
    entities=("Ostia", "Mole"),
)
KNOWN = Fact(
    id="erased-fact", subject="Mara", relation="moors in", object="Ostia", evidence=(SAID.id,)
)
OTHERS = [
    Segment(id="other-1", text="A quiet evening.", entities=("Mole",)),
    Segment(id="other-2", text="The sea is grey."),
]
AFTER = Segment(id="other-3", text="Yes, there.", session="harbour")
"""The turn after it, whose context has its text."""
OTHERS.append(AFTER)
LEGS = {leg.name for leg in ProfileBook.load()["default"].legs} - {"replies"}
"""No question is stored here, so nothing follows one."""
QUESTIONS = (
    SAID.text,
    "Where does Mara moor the boat?",
    "What do we know of Ostia?",
    "What was said on 3 May 2026?",
    "What about Ostja?",  # corrected to a name that is stored
)


class Asker:
    """Asks a service in each way that it can be asked."""

    def __init__(self, memory: AsyncClient) -> None:
        self.memory = memory

    async def everything(self) -> list[Retrieval]:
        """All answers to questions by text, by vector, by seed and by filter."""
        ask = self.memory.retrieve
        vector = await FakeEmbedder().embed_query(SAID.text, Deadline.after(60))
        profiles = [each.name async for each in self.memory.list_profiles()]
        return [
            *[await ask(text, profile=name) for text in QUESTIONS for name in profiles],
            await ask("", vector=vector.tolist()),
            await ask("boat", seed_ids=[SAID.id], profile="annie"),
            await ask("boat", filter=Filter(speakers=["Mara"])),
            await ask("boat", filter=Filter(sessions=["harbour"])),
            await ask("boat", filter=Filter(labels={"topic": ["boat"]})),
        ]

    async def listed(self) -> set[str]:
        segments = [each.id async for each in self.memory.list_segments()]
        facts = [each.id async for each in self.memory.list_facts()]
        by_id = [each.id for each in (await self.memory.get_segments([SAID.id])).segments]
        return {*segments, *facts, *by_id}

    async def assert_gone(self) -> None:
        answers = await self.everything()
        assert not any("erased-" in repr(each.hits) for each in answers)
        assert await self.listed() == {each.id for each in OTHERS}
        absence = await self.memory.explain_absence(SAID.text, segment_id=SAID.id)
        assert absence.loss is Loss.NOT_STORED
        stats = await self.memory.stats()
        assert stats.tenant is not None
        assert (stats.tenant.segment_count, stats.tenant.fact_count) == (len(OTHERS), 0)
        assert stats.dead_letters == ()


@pytest.fixture
async def asker(postgres_dsn: str, neo4j_uri: str) -> AsyncIterator[Asker]:
    async with local_service(postgres_dsn, neo4j_uri) as memory:
        token = (await memory.ingest([*OTHERS, SAID, KNOWN])).consistency_token
        await answered(memory, QUESTIONS[0], token)
        yield Asker(memory)


async def token_of_all(memory: AsyncClient) -> str:
    written = await memory.ingest([*OTHERS])
    assert {each.state for each in written.outcomes} == {ItemState.UNCHANGED}
    return written.consistency_token


async def test_stored_items_are_found_by_every_search(asker: Asker) -> None:
    answers = await asker.everything()

    assert {leg for each in answers for hit in each.hits for leg in hit.legs} >= LEGS
    for answer in answers[-5:]:
        assert SAID.id in [hit.id for hit in answer.hits]
    assert SAID.id in await asker.listed()


async def test_erased_items_are_found_by_no_search(
    asker: Asker, postgres_dsn: str, neo4j_uri: str
) -> None:
    receipt = await asker.memory.forget(segment_ids=[SAID.id])
    assert receipt.verified, receipt
    asked = {
        each.store: {lookup.key: lookup.asked_count for lookup in each.lookups}
        for each in receipt.receipts
    }
    assert asked["postgres"] == {LookupKey.ID: 2, LookupKey.TEXT: 1}
    assert asked["vector_index"] == {LookupKey.ID: 2, LookupKey.VECTOR: 2}
    assert asked["graph"] == {LookupKey.ID: 2, LookupKey.TEXT: 2}
    await asker.assert_gone()

    for part in ("graph", "index"):
        await succeed("rebuild", part, dsn=postgres_dsn, uri=neo4j_uri)
    await answered(asker.memory, QUESTIONS[0], await token_of_all(asker.memory))
    await asker.assert_gone()
