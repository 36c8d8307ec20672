from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemId, segment_id
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Expansion
from serving.domain.ranking.profile import LegSpec, Profile, SignalSpec
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import RelatedLeg
from serving.pipeline.retrieval.legs.leg import Leg
from serving.pipeline.retrieval.legs.related import duplicates_of
from serving.pipeline.retrieval.steps import Retrieval
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import Batch
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import BrokenLeg, FixedConsistency, FixedLeg
from tests.support.builders import TENANT, segment
from tests.unit.pipeline.retrieval.retrieving import ReadStore, answered, hit_ids, states

SEGMENTS = (
    segment("film", "A piano is left on a beach.", entities=("The Piano", "Jane Campion")),
    segment("other-film", "A teacher plants a bomb.", entities=("Heaven", "Tom Tykwer")),
    segment("life", "She was born in Wellington.", entities=("Jane Campion",)),
    segment("other-life", "He comes from Wuppertal.", entities=("Tom Tykwer",)),
)


async def graph_of_all() -> InMemoryGraph:
    graph = InMemoryGraph()
    await graph.apply(GraphChanges(segments=[(TENANT, each) for each in SEGMENTS]))
    return graph


def leading_on(**expansion: Any) -> Profile:
    """Words and meaning, and a leg that leads on from what they found."""
    return Profile(
        name="two steps",
        legs=(
            LegSpec(name="lexical"),
            LegSpec(name="dense"),
            LegSpec(name="related", expansion=Expansion(**expansion)),
        ),
    )


async def ask(
    *,
    lexical: str,
    dense: str | None,
    seeds: int = 5,
    found_by: tuple[str, ...] = ("lexical", "dense"),
) -> Retrieval:
    """Asks two legs that find what they are told, or break, and the one that leads on."""
    legs: dict[str, Leg] = {
        "lexical": FixedLeg(lexical),
        "dense": BrokenLeg(RuntimeError("a bug")) if dense is None else FixedLeg(dense),
        "related": RelatedLeg(await graph_of_all(), FixedConsistency()),
    }
    return await answered(SEGMENTS, legs, leading_on(found_by=found_by, seeds=seeds))


async def test_related_leg_finds_segments_sharing_names() -> None:
    answer = await ask(lexical="film", dense="film")

    assert hit_ids(answer) == ["film", "life"]
    [term] = answer.hits[1].ledger.leg_terms
    assert (term.leg, term.rank, term.path) == ("related", 1, "Jane Campion")


async def test_related_leg_begins_with_agreed_seeds() -> None:
    answer = await ask(lexical="other-film film", dense="film", seeds=1)

    assert "life" in hit_ids(answer)
    assert "other-life" not in hit_ids(answer)


async def test_related_leg_without_seeds_finds_nothing() -> None:
    answer = await ask(lexical="", dense="")

    assert states(answer)["related"] is LegState.OK
    assert answer.hits == ()


async def test_related_leg_reports_a_missing_upstream_leg() -> None:
    answer = await ask(lexical="film", dense=None)

    assert hit_ids(answer) == ["film", "life"]
    assert answer.reports[2].state is LegState.PARTIAL
    assert answer.reports[2].reason == "upstream leg failed: dense: internal error"


async def test_related_leg_is_skipped_without_upstream_legs() -> None:
    answer = await ask(lexical="film", dense=None, found_by=("dense",))

    assert states(answer)["related"] is LegState.SKIPPED
    assert answer.reports[2].reason == "no candidate to start from; dense: internal error"


class NoGraph(InMemoryGraph):
    """A graph that cannot be reached."""

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> list[Candidate]:
        raise DependencyError("graph", "Neo4j cannot be reached")


async def test_unsharded_index_replaces_the_graph() -> None:
    engine, store = InMemoryIndex(), ReadStore()
    embedded = [each for each in SEGMENTS if each.id != "other-life"]
    engine.apply([segment_row(each, unit(1)) for each in embedded], [])
    space = VectorSpace.here(FakeEmbedder(), EngineIndex(engine))
    await store.write(Batch(TENANT, SEGMENTS))
    profile = replace(
        leading_on(found_by=("lexical",)),
        limit=1,
        signals=(SignalSpec(name="speaker", weight=1.0), SignalSpec(name="recency", weight=1.0)),
    )
    legs: dict[str, Leg] = {
        "lexical": FixedLeg("film other-film other-life"),
        "related": RelatedLeg(NoGraph(), FixedConsistency()),
    }

    answer = await answered(store, legs, profile, space=space)

    assert states(answer)["related"] is LegState.OK
    assert hit_ids(answer) == ["film"]
    loaded = [item.id for read in store.reads for item in read]
    assert loaded[0] == "other-life", "it has no vector, so signals need its row"
    assert "other-film" not in loaded, "it has one, and is not shown"


def test_equal_scores_in_every_leg_mean_duplicate() -> None:
    def scored(**scores: float) -> list[Candidate]:
        return [Candidate(segment_id(id_), score) for id_, score in scores.items()]

    found = {
        "lexical": scored(best=9, double=7, original=7, other=7),
        "dense": scored(best=0.9, double=0.8, original=0.8, other=0.7),
    }

    for seed, doubles in (("best", set()), ("double", {"double", "original"})):
        assert {item.id for item in duplicates_of([segment_id(seed)], found)} == doubles


async def test_duplicate_of_a_seed_is_not_related() -> None:
    answer = await ask(lexical="film=life", dense="", seeds=1, found_by=("lexical",))

    found_by = {hit.item.id: [term.leg for term in hit.ledger.leg_terms] for hit in answer.hits}
    assert found_by == {"film": ["lexical"], "life": ["lexical"]}
