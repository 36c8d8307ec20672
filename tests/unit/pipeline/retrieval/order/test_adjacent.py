from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemId, Segment
from serving.domain.questions.query import NO_FILTER, Filter, Query
from serving.domain.ranking.ledger import AdjacentTerm
from serving.domain.ranking.profile import LegSpec, Profile
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.legs.leg import Leg
from serving.pipeline.retrieval.steps import Retrieval
from serving.ports.vector_index import AdjacencyAnswer
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import FixedIndex, FixedLeg
from tests.support.builders import NOON, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import answered, hit_ids, some_space

PROFILE = Profile(
    name="plain", legs=(LegSpec(name="dense", depth=40),), rank_constant=2, adjacent=0.1
)
LIFTED = replace(PROFILE, adjacent=0.2)
OTHERS = [segment(f"x{number}", f"Text {number}.") for number in range(30)]


def call(texts: Mapping[str, str]) -> list[Segment]:
    return [
        segment(id_, text, session="call", event_time=NOON + timedelta(minutes=minute))
        for minute, (id_, text) in enumerate(texts.items())
    ]


def space_of(turns: Sequence[Segment]) -> VectorSpace:
    engine = InMemoryIndex()
    engine.apply([segment_row(each, unit(1)) for each in turns], [])
    return VectorSpace.here(FakeEmbedder(), EngineIndex(engine))


async def ask(
    turns: Sequence[Segment], found: str, profile: Profile = PROFILE, filter_: Filter = NO_FILTER
) -> Retrieval:
    legs: dict[str, Leg] = {"dense": FixedLeg(found)}
    asked = query("?", scope=scope(as_of=NOON + timedelta(days=1), filter_=filter_))
    return await answered(turns, legs, profile, asked, space=space_of(turns))


async def test_turns_adjacent_to_a_hit_get_a_share() -> None:
    turns = call({"a": "We ate.", "b": "Then we sailed.", "c": "To Goa.", "d": "And back."})

    answer = await ask([*turns, *OTHERS], "b x0 x1 x2 x3 c x4", LIFTED)

    b, *_, c = (hit for hit in answer.hits if hit.item.id in "bc")
    assert hit_ids(answer) == ["b", "x0", "x1", "c", "x2", "x3", "x4"]
    assert c.ledger.adjacent == (AdjacentTerm(0.2, 1 / 3, b.item.item),)
    assert c.score == pytest.approx(1 / 8 + 0.2 / 3)


async def test_first_five_hits_take_no_share() -> None:
    turns = call({"a": "We ate.", "b": "Then we sailed."})

    answer = await ask([*turns, *OTHERS], "a x0 x1 x2 b x3", LIFTED)

    assert hit_ids(answer) == ["a", "x0", "x1", "x2", "b", "x3"]
    assert [hit.ledger.adjacent for hit in answer.hits] == [()] * 6


async def test_brief_answer_is_before_the_question_it_follows() -> None:
    question, answer = call({"q": "Tea or coffee?", "a": "Tea."})
    turns = [replace(question, speaker="Bot"), replace(answer, speaker="Mia"), *OTHERS]
    profile = replace(PROFILE, adjacent=0.01, current_first=True)

    answers = await ask(turns, "q x0 x1 x2 x3 x4 a", profile)

    assert hit_ids(answers)[:3] == ["x0", "x1", "a"]


async def test_questions_adjacent_to_a_hit_get_nothing() -> None:
    turns = call({"a": "Where did you go?", "b": "To Goa.", "c": "Really? I see."})

    answer = await ask([*turns, *OTHERS], "b x0 x1 x2 x3 a c")

    assert [hit.ledger.adjacent for hit in answer.hits] == [()] * 7


async def test_only_the_first_ten_hits_give() -> None:
    turns = call({str(number): f"Turn {number}." for number in range(30)})
    found = " ".join(str(number) for number in (*range(0, 30, 2), *range(1, 30, 2)))

    answer = await ask(turns, found, replace(PROFILE, limit=30))

    givers = {term.by.id for hit in answer.hits for term in hit.ledger.adjacent}
    assert givers == {str(number) for number in range(0, 20, 2)}


async def test_candidate_far_down_is_lifted_into_the_answer() -> None:
    turns = call({"a": "We ate.", "b": "Then we sailed."})
    found = " ".join(["a", *(each.id for each in OTHERS), "b"])

    answer = await ask([*turns, *OTHERS], found, replace(PROFILE, adjacent=0.4))

    assert hit_ids(answer)[:5] == ["a", "x0", "x1", "x2", "b"]


class LostIndex(FixedIndex):
    async def adjacent(
        self, query: Query, items: Sequence[ItemId], deadline: Deadline
    ) -> AdjacencyAnswer:
        raise DependencyError("index", "the replica cannot be reached")


class WaitedForIndex(FixedIndex):
    """Keeps the writes that it was to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[ConsistencyToken | None] = []

    async def adjacent(
        self, query: Query, items: Sequence[ItemId], deadline: Deadline
    ) -> AdjacencyAnswer:
        self.waited.append(query.token)
        return AdjacencyAnswer({})


async def test_order_waits_for_no_write() -> None:
    index, legs = WaitedForIndex(), {"dense": FixedLeg("a")}
    space = replace(some_space(), whole_index=index)
    asked = query("?", token=ConsistencyToken.of("1", [5]))

    await answered([segment("a")], legs, PROFILE, asked, space=space)

    assert index.waited == [None]


async def test_order_stands_where_no_turn_is_known() -> None:
    turns = call({"a": "We ate.", "b": "Then we sailed."})
    legs: dict[str, Leg] = {"dense": FixedLeg("b")}

    for space in (some_space(), replace(some_space(), whole_index=LostIndex())):
        assert hit_ids(await answered(turns, legs, PROFILE, space=space)) == ["b"]
