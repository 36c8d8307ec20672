"""A vector index in shares."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError
from serving.domain.items.records import ItemId, ItemKind, TenantName, fact_id, segment_id
from serving.domain.questions.query import Filter
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.shards import Shard, all_shards
from serving.pipeline.index.sharding import ShardedIndex
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import DenseLeg
from serving.ports.embedding import VectorLike
from serving.ports.index_engine import IndexRow
from serving.ports.vector_index import IndexAnswer, IndexStatus, VectorIndex, WantedNeighbours
from tests.fakes.meaning import (
    EngineIndex,
    FakeEmbedder,
    InMemoryIndex,
    fact_row,
    segment_row,
    unit,
)
from tests.fakes.pipeline import FixedIndex, RecordingAccess
from tests.support.builders import TENANT, fact, scope, segment
from tests.support.shards import owns
from tests.unit.pipeline.retrieval.retrieving import TWO_LEGS, answered, soon

TOKEN = ConsistencyToken.of("in-memory", [7])


class OneIndex(FixedIndex):
    """Answers the same to every search, or raises, or never answers."""

    def __init__(self, answer: IndexAnswer | Exception | None, status: IndexStatus | None = None):
        super().__init__()
        self._answer = answer
        self._status = status

    async def search(
        self, question: VectorLike | str, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        if self._answer is None:
            await asyncio.Event().wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        assert self._answer is not None
        return self._answer

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        if isinstance(self._answer, Exception):
            raise self._answer
        return 1

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        if self._status is None:
            raise DependencyError("index", "the replica cannot be reached")
        return self._status


LOST = OneIndex(DependencyError("index", "the replica cannot be reached"))
FILLING = OneIndex(NotReadyError("index", "starting"))
HANGING = OneIndex(None)


def found(*names: str, score: float = 0.5, epoch: int = 1, stale: bool = False) -> OneIndex:
    candidates = [Candidate(segment_id(name), score) for name in names]
    return OneIndex(IndexAnswer(candidates, epoch, stale))


async def search(*shards: VectorIndex, depth: int = 10, seconds: float = 30) -> IndexAnswer:
    wanted = WantedNeighbours(ItemKind.SEGMENT, scope(), depth)
    return await ShardedIndex(shards).search(unit(1), wanted, Deadline.after(seconds))


# ---------------------------------------------------------------- what is found

NAMES = [f"{place}" for place in range(24)]
SEEDS = st.lists(st.integers(1, 8), min_size=1, max_size=2)


def rows_of(
    shard: Shard, segments: dict[str, list[int]], facts: dict[str, tuple[int, list[str]]]
) -> list[IndexRow]:
    """What the feed brings to a share: its own rows, and what its facts rest on without vectors."""
    own_facts = {id_: each for id_, each in facts.items() if owns(shard, TENANT, fact_id(id_))}
    rests_on = {name for _, evidence in own_facts.values() for name in evidence}
    rows = [
        fact_row(fact(id_, "x", "is", "y", evidence=tuple(evidence)), unit(seed))
        for id_, (seed, evidence) in own_facts.items()
    ]
    for name, seeds in segments.items():
        stored = segment(name, kind="note" if int(name) % 3 == 0 else "turn")
        if owns(shard, TENANT, stored.item):
            rows.append(segment_row(stored, *map(unit, seeds)))
        elif name in rests_on:
            rows.append(segment_row(stored))
    return rows


def index_of(rows: list[IndexRow]) -> EngineIndex:
    engine = InMemoryIndex()
    engine.apply(rows, [])
    return EngineIndex(engine)


@given(
    segments=st.dictionaries(st.sampled_from(NAMES), SEEDS),
    facts=st.dictionaries(
        st.sampled_from(NAMES),
        st.tuples(st.integers(1, 8), st.lists(st.sampled_from(NAMES), max_size=3)),
    ),
    count=st.integers(2, 5),
    kind=st.sampled_from(list(ItemKind)),
    filter_=st.sampled_from([Filter(), Filter(kinds=("note",))]),
    depth=st.integers(1, 12),
)
async def test_shards_find_exactly_as_a_whole_index(
    segments: dict[str, list[int]],
    facts: dict[str, tuple[int, list[str]]],
    count: int,
    kind: ItemKind,
    filter_: Filter,
    depth: int,
) -> None:
    stored = {id_: each for id_, each in facts.items() if set(each[1]) <= set(segments)}
    whole = index_of(rows_of(Shard(), segments, stored))
    shards = [index_of(rows_of(shard, segments, stored)) for shard in all_shards(count)]
    asked = (unit(1), WantedNeighbours(kind, scope(filter_=filter_), depth), soon())

    assert await ShardedIndex(shards).search(*asked) == await whole.search(*asked)


async def test_stale_shard_makes_the_whole_answer_stale() -> None:
    answer = await search(found("a", epoch=4, stale=True), found("b", epoch=9))

    assert (answer.stale, answer.epoch, answer.unsearched) == (True, 4, "")


# ---------------------------------------------------------------- a shard that is lost


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        (LOST, "the replica cannot be reached"),
        (FILLING, "starting"),
        (HANGING, "no answer in time"),
    ],
)
async def test_lost_shard_is_named_in_the_answer(lost: OneIndex, why: str) -> None:
    answer = await search(found("a"), lost, found("b"), seconds=0.2)

    assert [each.item.id for each in answer.candidates] == ["a", "b"]
    assert answer.unsearched == f"2 of 3 shards answered; shard 1: {why}"


async def test_a_leg_without_one_of_its_shards_is_partial() -> None:
    index = ShardedIndex([found("a"), LOST])
    space = VectorSpace.of(FakeEmbedder(), index)
    legs = {"dense": DenseLeg(RecordingAccess())}

    answer = await answered([segment("a")], legs, TWO_LEGS, space=space)

    report = answer.reports[1]
    assert (report.state, report.candidates) == (LegState.PARTIAL, 1)
    assert report.reason == (
        "not all was searched; 1 of 2 shards answered; shard 1: the replica cannot be reached"
    )


async def test_without_any_shard_there_is_no_answer() -> None:
    with pytest.raises(DependencyError, match=r"shard 0: the .*; shard 1: starting") as one:
        await search(LOST, FILLING)
    assert not isinstance(one.value, NotReadyError)
    with pytest.raises(NotReadyError, match="shard 0: starting; shard 1: starting"):
        await search(FILLING, FILLING)
    with pytest.raises(TimeoutError):
        await search(HANGING, HANGING, seconds=0.01)


async def test_a_fault_of_the_question_is_no_lost_shard() -> None:
    with pytest.raises(ValueError, match="dimensions"):
        await search(found("a"), OneIndex(ValueError("vectors must have 4 dimensions")))


async def test_rows_are_counted_only_over_all_shards() -> None:
    items = [segment_id("a")]

    assert await ShardedIndex([found(), found()]).count(TENANT, items) == 2
    with pytest.raises(DependencyError):
        await ShardedIndex([found(), LOST]).count(TENANT, items)


async def test_write_is_seen_by_every_shard() -> None:
    seen, unseen = FixedIndex(), FixedIndex(ready=False)

    assert await ShardedIndex([seen, seen]).caught_up(TOKEN, soon())
    assert not await ShardedIndex([seen, unseen]).caught_up(TOKEN, soon())


async def test_state_names_shards_not_ready() -> None:
    def in_state(status: IndexStatus | None) -> OneIndex:
        return OneIndex(None, status)

    ready = IndexStatus(ready=True, vector_count=3, epoch=5)
    making = IndexStatus(False, 2, 4, "re-embedding 3 %")

    assert await ShardedIndex([in_state(ready), in_state(ready)]).status() == IndexStatus(
        ready=True, vector_count=6, epoch=5
    )
    assert await ShardedIndex([in_state(ready), in_state(making)]).status() == IndexStatus(
        False, 5, 4, "shard 1 of 2: re-embedding 3 %"
    )
    lost = await ShardedIndex([in_state(None), in_state(making)]).status()
    assert (lost.ready, lost.vector_count) == (False, 2)
    assert lost.reason == (
        "shard 0 of 2: the replica cannot be reached; shard 1 of 2: re-embedding 3 %"
    )
