"""What every graph and every index relates by shared mentions."""

from __future__ import annotations

from typing import Any

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import Segment, TenantName, segment_id
from serving.domain.questions.query import Filter
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.graph import Graph, GraphChanges
from serving.ports.index_engine import IndexEngine
from tests.contract.test_vector_index import ENGINES
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import segment_row, unit
from tests.support.builders import NOON, OTHER, TENANT, days, ids, mentioning, query, scope, segment


class GraphMemory:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def keep(self, *segments: Segment, tenant: TenantName = TENANT) -> None:
        rows = [(tenant, each) for each in segments]
        await self._graph.apply(GraphChanges(segments=rows))

    async def remove(self, id_: str) -> None:
        await self._graph.apply(GraphChanges(removed=[(TENANT, segment_id(id_))]))

    async def related(
        self, *seeds: str, question: str = "?", depth: int = 10, **of_scope: Any
    ) -> list[Candidate]:
        asked = query(question, scope=scope(**of_scope))
        return await self._graph.related(asked, ids(*seeds), depth, Deadline.after(30))


class EngineMemory:
    """Each segment has several windows, which are one mention."""

    def __init__(self, engine: IndexEngine) -> None:
        self._engine = engine

    async def keep(self, *segments: Segment, tenant: TenantName = TENANT) -> None:
        windows = [unit(1), unit(2), unit(3)]
        self._engine.apply([segment_row(each, *windows, tenant=tenant) for each in segments], [])

    async def remove(self, id_: str) -> None:
        self._engine.apply([], [(TENANT, segment_id(id_))])

    async def related(
        self, *seeds: str, question: str = "?", depth: int = 10, **of_scope: Any
    ) -> list[Candidate]:
        return self._engine.related(query(question, scope=scope(**of_scope)), ids(*seeds), depth)


Memory = GraphMemory | EngineMemory


@pytest.fixture(
    params=[
        pytest.param(InMemoryGraph, id="graph"),
        pytest.param("neo4j_graph", id="neo4j", marks=pytest.mark.neo4j),
        *ENGINES,
    ]
)
def memory(request: pytest.FixtureRequest) -> Memory:
    make = request.param
    if isinstance(make, str):
        return GraphMemory(request.getfixturevalue(make))
    made = make()
    return GraphMemory(made) if isinstance(made, InMemoryGraph) else EngineMemory(made)


async def found(memory: Memory, *seeds: str, **how: Any) -> list[str]:
    return [one.item.id for one in await memory.related(*seeds, **how)]


async def test_shared_rare_name_relates_more_than_common(memory: Memory) -> None:
    await memory.keep(
        *mentioning(film="The Piano, Jane Campion", life="Jane Campion, Wellington"),
        *mentioning(piano_0="The Piano", piano_1="The Piano", other="Wellington"),
    )

    related = await memory.related("film")

    assert [one.item for one in related] == ids("life", "piano_0", "piano_1")
    assert [one.score for one in related] == pytest.approx([1 / 4, 1 / 6, 1 / 6], abs=2e-9)
    assert await memory.related("film", depth=1) == related[:1]


async def test_earlier_seeds_count_more_and_add_up(memory: Memory) -> None:
    await memory.keep(
        segment("first", entities=("Mara",)),
        segment("second", speaker="Ines", entities=("Otto",)),
        segment("of-first", speaker="Mara"),
        segment("of-second", entities=("Otto",)),
        segment("of-second-twice", entities=("Otto", "Ines")),
    )

    related = await memory.related("first", "unknown", "second")

    assert [one.item for one in related] == ids("of-first", "of-second-twice", "of-second")
    assert [one.path for one in related] == ["Mara", "Ines, Otto", "Otto"]
    scores = [1 / 4, 1 / 12 + 1 / 8, 1 / 12]
    assert [one.score for one in related] == pytest.approx(scores, abs=2e-9)
    assert await memory.related() == []


async def test_a_seed_is_related_only_to_another_one(memory: Memory) -> None:
    await memory.keep(*mentioning(a="Mara", b="Mara"))

    assert await found(memory, "a") == ["b"]
    assert await found(memory, "a", "b") == ["b", "a"]


async def test_common_name_relates_nothing(memory: Memory) -> None:
    await memory.keep(*(segment(f"s{n:02}", entities=("Mara",)) for n in range(51)))

    assert await found(memory, "s00") == []
    await memory.remove("s50")
    assert len(await found(memory, "s00", depth=100)) == 49


async def test_name_in_the_question_relates_nothing(memory: Memory) -> None:
    await memory.keep(
        *mentioning(film="The Piano (film), Jane Campion, pianos, Jane", life="Jane Campion"),
        *mentioning(again="The Piano (film)", shop="pianos", other="Jane"),
    )

    question = "Where was the director of the PIANO born?"
    assert await found(memory, "film", question=question) == ["life", "other"]
    assert await found(memory, "film", question="Who is Jane?") == ["again", "life", "shop"]


async def test_segment_is_related_by_mentions_alone(memory: Memory) -> None:
    await memory.keep(
        segment("seed", entities=("Mara",)),
        segment("of-mara", entities=("Mara",)),
        segment("mara", entity="Mara"),
        segment("mara-herself", entity="Mara", entities=("Mara",)),
    )

    assert await found(memory, "seed") == ["mara-herself", "of-mara"]
    assert await found(memory, "mara") == []


async def test_only_visible_segments_are_related(memory: Memory) -> None:
    await memory.keep(
        segment("seed", entities=("Mara",)),
        segment("note", entities=("Mara",), kind="note"),
        segment("later", entities=("Mara",), event_time=NOON + days(2)),
        segment("recorded-later", entities=("Mara",), created_at=NOON + days(2)),
    )
    await memory.keep(segment("theirs", entities=("Mara",)), tenant=OTHER)

    assert await found(memory, "seed", known_at=NOON) == ["note"]
    assert await found(memory, "seed", filter_=Filter(kinds=("note",))) == ["note"]
    assert await found(memory, "seed", filter_=Filter(kinds=("person",))) == []
    assert await found(memory, "seed", tenant=OTHER) == []
    assert await found(memory, "seed", tenant="nobody") == []
