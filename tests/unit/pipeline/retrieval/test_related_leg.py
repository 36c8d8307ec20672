from __future__ import annotations

from collections.abc import Sequence

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError
from serving.domain.items.records import Item, ItemId, TenantName, segment_id
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Expansion
from serving.domain.ranking.profile import LegSpec, Profile, SignalSpec
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import RelatedLeg
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest
from serving.pipeline.retrieval.legs.related import duplicates_of
from serving.pipeline.retrieval.steps import Retrieval
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import Batch
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import BrokenLeg, FixedConsistency, FixedLeg
from tests.fakes.store import InMemoryStore
from tests.support.builders import TENANT, query, segment
from tests.unit.pipeline.retrieval.retrieving import hit_ids, retriever, soon, states, store_of

SEGMENTS = (
    segment("film", "A piano is left on a beach.", entities=("The Piano", "Jane Campion")),
    segment("other-film", "A teacher plants a bomb.", entities=("Heaven", "Tom Tykwer")),
    segment("life", "She was born in Wellington.", entities=("Jane Campion",)),
    segment("other-life", "He comes from Wuppertal.", entities=("Tom Tykwer",)),
)


async def graph_of_all() -> InMemoryGraph:
    graph = InMemoryGraph()
    segments = [(TenantName(TENANT), each) for each in SEGMENTS]
    await graph.apply(GraphChanges(segments=segments))
    return graph


async def ask(
    *,
    lexical: str,
    dense: str | None,
    seeds: int = 5,
    found_by: tuple[str, ...] = ("lexical", "dense"),
) -> Retrieval:
    """Asks two legs that find what they are told, or break, and the one that leads on."""
    consistency = FixedConsistency()
    legs: dict[str, Leg] = {
        "lexical": FixedLeg(lexical),
        "dense": BrokenLeg(RuntimeError("a bug")) if dense is None else FixedLeg(dense),
        "related": RelatedLeg(await graph_of_all(), consistency),
    }
    expansion = Expansion(found_by=found_by, seeds=seeds)
    profile = Profile(
        name="two steps",
        legs=(
            LegSpec(name="lexical"),
            LegSpec(name="dense"),
            LegSpec(name="related", expansion=expansion),
        ),
    )
    store = await store_of(*SEGMENTS)
    answering = retriever(store, legs, consistency=consistency)
    return await answering.retrieve(query("Where was the director born?"), profile, soon())


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


class CountingStore(InMemoryStore):
    """A store that remembers which rows were read."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        self.loaded += [item.id for item in items]
        return await super().load(tenant, items, deadline)


async def test_unsharded_index_replaces_the_graph() -> None:
    engine, store = InMemoryIndex(), CountingStore()
    embedded = [each for each in SEGMENTS if each.id != "other-life"]
    engine.apply([segment_row(each, unit(1)) for each in embedded], [])
    space = VectorSpace.here(FakeEmbedder(), EngineIndex(engine))
    await store.write(Batch(TENANT, SEGMENTS))
    profile = Profile(
        name="two steps",
        limit=1,
        legs=(
            LegSpec(name="lexical"),
            LegSpec(name="related", expansion=Expansion(found_by=("lexical",))),
        ),
        signals=(SignalSpec(name="speaker", weight=1.0), SignalSpec(name="recency", weight=1.0)),
    )
    legs: dict[str, Leg] = {
        "lexical": FixedLeg("film other-film other-life"),
        "related": RelatedLeg(NoGraph(), FixedConsistency()),
    }

    answer = await retriever(store, legs, space=space).retrieve(query("?"), profile, soon())

    assert states(answer)["related"] is LegState.OK
    assert hit_ids(answer) == ["film"]
    assert store.loaded[0] == "other-life", "it has no vector, so signals need its row"
    assert "other-film" not in store.loaded, "it has one, and is not shown"


def test_equal_scores_in_every_leg_mean_duplicate() -> None:
    def scored(**scores: float) -> list[Candidate]:
        return [Candidate(segment_id(id_), score) for id_, score in scores.items()]

    found = {
        "lexical": scored(best=9, double=7, original=7, other=7),
        "dense": scored(best=0.9, double=0.8, original=0.8, other=0.7),
    }

    for seed, doubles in (("best", set()), ("double", {"double", "original"})):
        assert {item.id for item in duplicates_of([segment_id(seed)], found)} == doubles


class EqualLeg(Leg):
    """A leg that finds two segments with the same score."""

    async def find(self, request: LegRequest) -> LegAnswer:
        return LegAnswer([Candidate(segment_id(id_), 1.0) for id_ in ("film", "life")])


async def test_duplicate_of_a_seed_is_not_related() -> None:
    legs: dict[str, Leg] = {
        "lexical": EqualLeg(),
        "related": RelatedLeg(await graph_of_all(), FixedConsistency()),
    }
    expansion = Expansion(found_by=("lexical",), seeds=1)
    profile = Profile(
        name="two steps",
        legs=(LegSpec(name="lexical"), LegSpec(name="related", expansion=expansion)),
    )

    answer = await retriever(await store_of(*SEGMENTS), legs).retrieve(
        query("Where was the director born?"), profile, soon()
    )

    found_by = {hit.item.id: [term.leg for term in hit.ledger.leg_terms] for hit in answer.hits}
    assert found_by == {"film": ["lexical"], "life": ["lexical"]}
