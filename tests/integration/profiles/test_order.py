"""What an answer's order may depend on, over random memories in the real stores.

Metamorphic tests: a memory is changed in a way that should not matter, and asked again.
"""

from __future__ import annotations

import asyncio
import re
import uuid
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from serving.domain.budget import Deadline
from serving.ports.embedding import Embedding, EmbeddingModel, Vector
from tests.fakes.meaning import FakeEmbedder, unit
from tests.fixtures.local_service import local_service
from trivium import Fact, Item, Segment
from trivium.aio import AsyncClient
from trivium.values import LegState, Retrieval

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
ASKED_AT = BEGUN + timedelta(days=1)
PEOPLE = ("Yuki", "Tobias", "Corsin")
THINGS = ("cheese", "apricots", "cellar", "tractor", "chestnuts", "cake", "snow", "bees")
OTHER_THINGS = ("violin", "harbour", "marathon", "passport", "thunder", "mosaic")
QUESTIONS = tuple(
    f"What did {person} say about the {thing}?" for person in PEOPLE[:2] for thing in THINGS[:3]
)


class WordVectors(FakeEmbedder):
    """The sum of a direction per word, names and stop words left out."""

    STOP_WORDS = frozenset({"what", "did", "say", "about", "the", *map(str.lower, PEOPLE)})
    MODEL = EmbeddingModel("word vectors", 256)

    async def model(self) -> EmbeddingModel:
        return self.MODEL

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        return self._vector(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return [Embedding(self._vector(text)[np.newaxis]) for text in texts]

    def _vector(self, text: str) -> Vector:
        words = set(re.findall(r"\w+", text.lower())) - self.STOP_WORDS or {"nothing"}
        total = np.sum([unit(zlib.crc32(word.encode()), 256) for word in words], axis=0)
        vector: Vector = total / np.linalg.norm(total)
        return vector


@dataclass(frozen=True)
class Memory:
    """Turns in the order in which they were said, and facts about them."""

    turns: tuple[Segment, ...]
    facts: tuple[Fact, ...] = ()

    @property
    def items(self) -> list[Item]:
        return [*self.turns, *self.facts]


def turn(place: int, speaker: str, words: Sequence[str], named: Sequence[str] = ()) -> Segment:
    return Segment(
        id=f"turn-{place:02}",
        speaker=speaker,
        text=f"{' '.join((*named, *words))}.",
        entities=tuple(named),
        event_time=BEGUN + timedelta(minutes=place),
    )


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Few words, people and facts, so that many scores are equal."""
    turns = [
        turn(
            place,
            draw(st.sampled_from(PEOPLE)),
            draw(st.lists(st.sampled_from(THINGS), min_size=1, max_size=4, unique=True)),
            draw(st.lists(st.sampled_from(PEOPLE), max_size=2, unique=True)),
        )
        for place in range(draw(st.integers(6, 24)))
    ]
    facts = [
        Fact(
            id=f"fact-{place}",
            subject=draw(st.sampled_from(PEOPLE)),
            relation="keeps",
            object=draw(st.sampled_from(THINGS)),
            evidence=tuple(
                each.id for each in draw(st.lists(st.sampled_from(turns), min_size=1, max_size=3))
            ),
            recorded_at=BEGUN,
        )
        for place in range(draw(st.integers(0, 4)))
    ]
    return Memory(tuple(turns), tuple(facts))


@pytest.fixture
async def store(postgres_dsn: str, neo4j_uri: str) -> AsyncIterator[AsyncClient]:
    async with local_service(postgres_dsn, neo4j_uri, embedder=WordVectors()) as client:
        yield client


async def asked(store: AsyncClient, question: str, token: str) -> Retrieval:
    """Asks until every leg has seen the write behind the token, and has planned its query."""
    while True:
        found = await store.retrieve(question, consistency_token=token, as_of=ASKED_AT, timeout=20)
        states = {report.state for report in found.leg_reports}
        if states <= {LegState.OK, LegState.SKIPPED}:
            return found


async def retrievals(
    store: AsyncClient, items: Sequence[Item], questions: Sequence[str] = QUESTIONS
) -> list[Retrieval]:
    """Stores a memory for a tenant of its own, and asks each question."""
    tenant = store.for_tenant(uuid.uuid4().hex)
    token = (await tenant.ingest(items)).consistency_token
    async with asyncio.timeout(100):
        return [await asked(tenant, question, token) for question in questions]


async def answers(
    store: AsyncClient, items: Sequence[Item], questions: Sequence[str] = QUESTIONS
) -> list[list[str]]:
    """Does the same, and returns the texts of each answer's hits."""
    found = await retrievals(store, items, questions)
    return [[hit.text for hit in each.hits] for each in found]


def with_other_ids(memory: Memory) -> list[Item]:
    names = {each.id: f"x{99 - place}" for place, each in enumerate(memory.turns)}
    turns = [replace(each, id=names[each.id]) for each in memory.turns]
    facts = [
        replace(fact, id=f"y{fact.id}", evidence=tuple(names[id_] for id_ in fact.evidence))
        for fact in memory.facts
    ]
    return [*turns, *facts]


def in_another_order(memory: Memory) -> list[Item]:
    return [*reversed(memory.turns), *reversed(memory.facts)]


# All examples share a service: each is a tenant of its own.
RANDOM = settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("changed", [with_other_ids, in_another_order])
@RANDOM
@given(memory=memories())
async def test_answer_ignores_ids_and_order_of_writes(
    store: AsyncClient, changed: Callable[[Memory], list[Item]], memory: Memory
) -> None:
    assert await answers(store, changed(memory)) == await answers(store, memory.items)


@RANDOM
@given(memory=memories())
async def test_an_answer_depends_on_no_other_tenant(store: AsyncClient, memory: Memory) -> None:
    """Not even by how rare a word of the question is: there, all turns have the same one."""
    common = [replace(turn(place, "Yuki", ["cheese"]), id=f"other-{place}") for place in range(60)]

    before = await answers(store, memory.items)
    await store.for_tenant(uuid.uuid4().hex).ingest([*common, *with_other_ids(memory)])

    assert await answers(store, memory.items) == before


@RANDOM
@given(memory=memories(), places=st.sets(st.integers(0, 99), min_size=1, max_size=6))
async def test_answer_ignores_unrelated_turns(
    store: AsyncClient, memory: Memory, places: set[int]
) -> None:
    others = [
        replace(turn(place, "Bot", [OTHER_THINGS[place % 6]]), id=f"other-{place}")
        for place in places
    ]

    before = await answers(store, memory.items)
    after = await answers(store, [*others, *memory.items])

    assert after == before


@RANDOM
@given(memory=memories(), words=st.sets(st.sampled_from(THINGS), min_size=1, max_size=4))
async def test_duplicate_never_ranks_above_its_original(
    store: AsyncClient, memory: Memory, words: set[str]
) -> None:
    """A note without names: through these, a text that says more is related to what it doubles."""
    doubled = replace(turn(0, "", ["Note:", *sorted(words)]), id="z-doubled")
    double = replace(doubled, id="a-double", event_time=BEGUN + timedelta(hours=2))
    longer = replace(double, id="b-longer", text=f"{doubled.text} Yes, indeed.")

    for found in await answers(store, [double, longer, doubled, *memory.items]):
        alike = [text for text in found if text in (doubled.text, longer.text)]
        assert alike in ([], [doubled.text], [doubled.text, longer.text])


BETTER_SEEDS = Memory(tuple(turn(place, "Yuki", ["cheese"]) for place in range(1, 5)))
"""Four answers that are better than a longer text, so that one of a pair of these is a seed."""


@RANDOM
@given(memory=memories(), words=st.sets(st.sampled_from(THINGS), min_size=1, max_size=4))
@example(memory=BETTER_SEEDS, words=set(THINGS[:4]))
async def test_newest_of_repetitions_stands_for_all(
    store: AsyncClient, memory: Memory, words: set[str]
) -> None:
    first = replace(turn(0, "Tobias", sorted(words), PEOPLE[:2]), id="z-first")
    again = replace(first, id="a-again", event_time=BEGUN + timedelta(hours=2))

    for found in await retrievals(store, [again, first, *memory.items]):
        assert "z-first" not in [hit.id for hit in found.hits]


@RANDOM
@given(memory=memories())
async def test_best_by_words_and_meaning_is_among_two(store: AsyncClient, memory: Memory) -> None:
    """Whatever graph and signals say of the person that the question names."""
    asked = ["violin", "harbour", "marathon", "passport"]
    plain = replace(turn(50, "Corsin", asked, ["Yuki"]), id="zz-plain")
    others = [
        replace(turn(60 + place, "Yuki", [asked[place], *THINGS[place : place + 3]], ["Yuki"]))
        for place in range(3)
    ]

    question = f"What did Yuki say about the {' '.join(asked)}?"
    [found] = await answers(store, [*memory.items, *others, plain], [question])

    assert plain.text in found[:2]


async def test_words_find_mentions_and_not_turns_of_speakers(store: AsyncClient) -> None:
    said, mentioned = turn(0, "Yuki", ["violin"]), turn(1, "Tobias", ["harbour"], ["Yuki"])

    [found] = await retrievals(store, [said, mentioned], ["What did Yuki say about the cheese?"])

    assert [hit.id for hit in found.hits if "lexical" in hit.legs] == [mentioned.id]
