"""The graph leg that starts from what other legs found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemId
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Walk
from serving.domain.ranking.profile import LegSpec, Profile, Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.pipeline.retrieval.legs import GraphLeg
from serving.pipeline.retrieval.legs.leg import Leg, LegSkippedError
from tests.fakes.graph import InMemoryGraph
from tests.fakes.pipeline import BrokenLeg, FixedConsistency, FixedLeg
from tests.support.builders import ids, query, segment
from tests.unit.pipeline.retrieval.retrieving import answered

BOTH = Walk(seeds_from=("lexical", "dense"), mentions=True)
QUESTION = query("?")
OFF = BrokenLeg(LegSkippedError("its weight is 0"))
DOWN = BrokenLeg(DependencyError("index", "is down"))


@dataclass
class RecordingGraph(InMemoryGraph):
    """Finds nothing, and keeps how it was asked."""

    walks: list[Walk] = field(default_factory=list)
    seeds: list[list[ItemId] | None] = field(default_factory=list)

    async def search(
        self,
        query: Query,
        walk: Walk,
        seeds: object,
        depth: int,
        yields: Yields,
        deadline: Deadline,
    ) -> list[Candidate]:
        self.walks.append(walk)
        self.seeds.append(seeds)  # type: ignore[arg-type]
        return []


async def walked(
    lexical: Leg,
    dense: Leg,
    *,
    walk: Walk = BOTH,
    floor: float | None = None,
    asked: Query = QUESTION,
) -> tuple[RecordingGraph, LegReport]:
    graph = RecordingGraph()
    legs = {"lexical": lexical, "dense": dense, "graph": GraphLeg(graph, FixedConsistency())}
    specs = tuple(LegSpec(name=name) for name in ("lexical", "dense"))
    profile = Profile(name="seeded", legs=(*specs, LegSpec(name="graph", walk=walk, floor=floor)))
    answer = await answered([segment(id_) for id_ in "abcd"], legs, profile, asked)
    return graph, answer.reports[2]


async def test_walk_starts_from_lists_fused_by_rank() -> None:
    graph, _ = await walked(FixedLeg("a b"), FixedLeg("c b d"))

    assert graph.seeds == [ids("b", "a", "c", "d")]


async def test_walk_from_mentions_needs_no_facts() -> None:
    graph, report = await walked(FixedLeg("a"), FixedLeg("b"), floor=0.4)

    assert (report.state, graph.seeds) == (LegState.OK, [ids("a", "b")])


async def test_walk_without_one_of_its_legs_is_partial() -> None:
    graph, report = await walked(FixedLeg("a b"), DOWN)

    assert graph.seeds == [ids("a", "b")]
    assert (report.state, report.reason) == (
        LegState.PARTIAL,
        "upstream leg failed: dense: index: is down",
    )


FROM_DENSE = Walk(seeds_from=("dense",))


@pytest.mark.parametrize(
    ("walk", "dense", "state", "reason"),
    [
        (
            replace(FROM_DENSE, mentions=True),
            OFF,
            LegState.OK,
            "",
        ),  # from the names in the question
        (FROM_DENSE, FixedLeg(), LegState.OK, ""),
        (FROM_DENSE, OFF, LegState.SKIPPED, "dense: its weight is 0"),
        (FROM_DENSE, DOWN, LegState.SKIPPED, "dense: index: is down"),
    ],
    ids=["names", "nothing found", "skipped", "down"],
)
async def test_walk_without_seeds_is_no_empty_walk(
    walk: Walk, dense: Leg, state: LegState, reason: str
) -> None:
    asked = query("Who knows Ann?")

    graph, report = await walked(FixedLeg("a"), dense, walk=walk, asked=asked)

    assert (report.state, graph.seeds) == (state, [[]] if walk.mentions else [])
    assert report.reason == (f"no entity to start from; {reason}" if reason else "")


async def test_seeds_of_the_request_replace_names_and_mentions() -> None:
    given = query("?", seeds=("d",))

    graph, _ = await walked(FixedLeg("a b"), FixedLeg("c"), asked=given)

    assert graph.seeds == [ids("d")]
    assert not graph.walks[0].mentions
