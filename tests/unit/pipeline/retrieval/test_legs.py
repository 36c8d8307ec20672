"""The legs: what their classes say of them, and what each finds after what others found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from serving.domain.breaker import DEPENDENCIES, POSTGRES
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemId, fact_id, segment_id
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Expansion, Walk
from serving.domain.ranking.profile import LegSpec, Profile, SignalSpec
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.pipeline.retrieval.legs import LEGS, DenseLeg, GraphLeg, RelatedLeg, RepliesLeg
from serving.pipeline.retrieval.legs.expansion import duplicates_of
from serving.pipeline.retrieval.legs.leg import Leg, LegSkippedError, by_name
from serving.pipeline.retrieval.legs.meaning import evidence_in_order
from serving.pipeline.retrieval.steps import Retrieval
from serving.ports.graph import GraphChanges
from serving.ports.vector_index import AdjacencyAnswer, IndexAnswer
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import (
    BrokenLeg,
    FixedConsistency,
    FixedIndex,
    FixedLeg,
    RecordingAccess,
)
from tests.support.builders import NOON, TENANT, batch_of, ids, query, segment
from tests.unit.pipeline.retrieval.retrieving import (
    TWO_LEGS,
    ReadStore,
    answered,
    hit_ids,
    some_space,
    space_of,
    states,
)

# ---------------------------------------------------------------- the legs' own words


def test_every_leg_declares_itself() -> None:
    for name, leg in LEGS.items():
        assert leg.name == name
        assert leg.projection in (None, "embedding", "graph")
        assert leg.dependency in ("", *DEPENDENCIES)


def test_leg_without_an_attribute_is_rejected() -> None:
    class Incomplete(Leg):
        name = "incomplete"
        options = frozenset[str]()
        projection = None
        dependency = POSTGRES
        ranks_by_text = True

    with pytest.raises(TypeError, match=r"Incomplete must set by_meaning \(see Leg\)"):
        by_name(Incomplete)  # type: ignore[type-abstract]


def test_words_and_meaning_are_never_shed() -> None:
    assert not {"lexical", "dense"} & {name for name, leg in LEGS.items() if leg.sheddable}


def test_only_words_find_sensitive_items() -> None:
    assert [name for name, leg in LEGS.items() if leg.finds_sensitive] == ["lexical"]


def test_fact_without_evidence_stands_for_itself() -> None:
    facts = [
        Candidate(fact_id(name), score) for name, score in (("a", 0.9), ("b", 0.8), ("c", 0.7))
    ]
    answer = IndexAnswer(facts, epoch=1, evidence={"a": ("s1", "s2"), "c": ("s2",)})

    found = evidence_in_order(facts, answer)

    assert found == [
        Candidate(segment_id("s1"), 0.9, facts=("a",)),
        Candidate(segment_id("s2"), 0.9, facts=("a", "c")),
        Candidate(fact_id("b"), 0.8),
    ]


def test_fact_whose_evidence_is_hidden_is_hidden() -> None:
    fact = Candidate(fact_id("a"), 0.9)

    assert evidence_in_order([fact], IndexAnswer([fact], epoch=1, evidence={"a": ()})) == []


# ---------------------------------------------------------------- meaning


BY_WORDS = LegSpec(name="dense", late_interaction=True)


@pytest.mark.parametrize(
    ("text", "spec", "wanted"),
    [
        ("Where did we sail?", BY_WORDS, -1.0),
        ("Where did we sail?", replace(BY_WORDS, floor=0.2), 0.2),
        ("Where did we sail?", LegSpec(name="dense", floor=0.2), None),
        ("Who has the room 15b?", BY_WORDS, None),
        ("Who drives X-ray?", BY_WORDS, None),
    ],
)
async def test_words_order_questions_without_codes(
    text: str, spec: LegSpec, wanted: float | None
) -> None:
    index = FixedIndex()
    profile = Profile(name="p", legs=(spec,))
    space = VectorSpace.of(FakeEmbedder(), index)

    await answered([], {"dense": DenseLeg(RecordingAccess())}, profile, query(text), space=space)

    assert [each.late_interaction for each in index.wanted] == [wanted]


# ---------------------------------------------------------------- graph


BOTH = Walk(seeds_from=("lexical", "dense"), mentions=True)
QUESTION = query("?")
OFF = BrokenLeg(LegSkippedError("its weight is 0"))
DOWN = BrokenLeg(DependencyError("index", "is down"))
LOST = "dense: index: is down"


@dataclass
class RecordingGraph(InMemoryGraph):
    """Finds nothing, and keeps how it was asked."""

    walks: list[Walk] = field(default_factory=list)
    seeds: list[list[ItemId] | None] = field(default_factory=list)

    async def search(self, query: Query, walk: Walk, seeds: Any, *_: Any) -> list[Candidate]:
        self.walks.append(walk)
        self.seeds.append(seeds)
        return []


async def walked(
    lexical: Leg, dense: Leg, *, walk: Walk = BOTH, asked: Query = QUESTION
) -> tuple[RecordingGraph, LegReport]:
    """A walk in a memory without facts, by a leg with a floor."""
    graph = RecordingGraph()
    legs = {"lexical": lexical, "dense": dense, "graph": GraphLeg(graph, FixedConsistency())}
    spec = LegSpec(name="graph", walk=walk, floor=0.4 if walk.mentions else None)
    profile = Profile(name="seeded", legs=(*TWO_LEGS.legs, spec))
    answer = await answered([segment(id_) for id_ in "abcd"], legs, profile, asked)
    return graph, answer.reports[2]


FROM_DENSE = Walk(seeds_from=("dense",))
WITH_NAMES = replace(FROM_DENSE, mentions=True)
OF_DENSE = "no entity to start from; dense: "


@pytest.mark.parametrize(
    ("lexical", "dense", "walk", "seeds", "state", "reason"),
    [
        ("a b", FixedLeg("c b d"), BOTH, [ids("b", "a", "c", "d")], LegState.OK, ""),
        ("a b", DOWN, BOTH, [ids("a", "b")], LegState.PARTIAL, f"upstream leg failed: {LOST}"),
        ("a", OFF, WITH_NAMES, [[]], LegState.OK, ""),
        ("a", FixedLeg(), FROM_DENSE, [], LegState.OK, ""),
        ("a", OFF, FROM_DENSE, [], LegState.SKIPPED, f"{OF_DENSE}its weight is 0"),
        ("a", DOWN, FROM_DENSE, [], LegState.SKIPPED, f"no entity to start from; {LOST}"),
    ],
    ids=["fused by rank", "one failed", "names", "nothing found", "skipped", "down"],
)
async def test_walk_starts_from_candidates_of_upstream_legs(
    lexical: str, dense: Leg, walk: Walk, seeds: list[object], state: LegState, reason: str
) -> None:
    asked = query("Who knows Ann?")

    graph, report = await walked(FixedLeg(lexical), dense, walk=walk, asked=asked)

    assert graph.seeds == seeds
    assert (report.state, report.reason) == (state, reason)


async def test_seeds_of_the_request_replace_names_and_mentions() -> None:
    given = query("?", seeds=("d",))

    graph, _ = await walked(FixedLeg("a b"), FixedLeg("c"), asked=given)

    assert graph.seeds == [ids("d")]
    assert not graph.walks[0].mentions


# ---------------------------------------------------------------- related


SEGMENTS = (
    segment("film", "A piano is left on a beach.", entities=("The Piano", "Jane Campion")),
    segment("other-film", "A teacher plants a bomb.", entities=("Heaven", "Tom Tykwer")),
    segment("life", "She was born in Wellington.", entities=("Jane Campion",)),
    segment("other-life", "He comes from Wuppertal.", entities=("Tom Tykwer",)),
)


def leading_on(**expansion: Any) -> Profile:
    """Words and meaning, and a leg that leads on from what they found."""
    spec = LegSpec(name="related", expansion=Expansion(**expansion))
    return Profile(name="two steps", legs=(*TWO_LEGS.legs, spec))


BEFORE = ("lexical", "dense")
BUG = "dense: internal error"


async def related(
    *, lexical: str, dense: str | None, seeds: int = 5, found_by: tuple[str, ...] = BEFORE
) -> Retrieval:
    """Asks two legs that find what they are told, or break, and the one that leads on."""
    graph = InMemoryGraph()
    await graph.apply(GraphChanges(segments=[(TENANT, each) for each in SEGMENTS]))
    legs: dict[str, Leg] = {
        "lexical": FixedLeg(lexical),
        "dense": BrokenLeg(RuntimeError("a bug")) if dense is None else FixedLeg(dense),
        "related": RelatedLeg(graph, FixedConsistency()),
    }
    return await answered(SEGMENTS, legs, leading_on(found_by=found_by, seeds=seeds))


@pytest.mark.parametrize(
    ("lexical", "dense", "found_by", "found", "state", "reason"),
    [
        ("film", "film", BEFORE, ["film", "life"], LegState.OK, ""),
        ("", "", BEFORE, [], LegState.OK, ""),
        ("film", None, BEFORE, ["film", "life"], LegState.PARTIAL, f"upstream leg failed: {BUG}"),
        (
            "film",
            None,
            ("dense",),
            ["film"],
            LegState.SKIPPED,
            f"no candidate to start from; {BUG}",
        ),
    ],
    ids=["shared names", "no seeds", "one failed", "all failed"],
)
async def test_related_leg_leads_on_from_upstream_legs(
    lexical: str,
    dense: str | None,
    found_by: tuple[str, ...],
    found: list[str],
    state: LegState,
    reason: str,
) -> None:
    answer = await related(lexical=lexical, dense=dense, found_by=found_by)

    assert hit_ids(answer) == found
    assert (answer.reports[2].state, answer.reports[2].reason) == (state, reason)
    terms = [term for hit in answer.hits[1:] for term in hit.ledger.leg_terms]
    assert [(term.leg, term.rank, term.path) for term in terms] == [
        ("related", 1, "Jane Campion") for _ in found[1:]
    ]


async def test_related_leg_begins_with_agreed_seeds() -> None:
    answer = await related(lexical="other-film film", dense="film", seeds=1)

    assert "life" in hit_ids(answer)
    assert "other-life" not in hit_ids(answer)


class NoGraph(InMemoryGraph):
    """A graph that cannot be reached."""

    async def related(self, *_: object) -> list[Candidate]:
        raise DependencyError("graph", "Neo4j cannot be reached")


async def test_unsharded_index_replaces_the_graph() -> None:
    store = ReadStore()
    space = space_of(*(each for each in SEGMENTS if each.id != "other-life"))
    await store.write(batch_of(*SEGMENTS))
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
    answer = await related(lexical="film=life", dense="", seeds=1, found_by=("lexical",))

    found_by = {hit.item.id: [term.leg for term in hit.ledger.leg_terms] for hit in answer.hits}
    assert found_by == {"film": ["lexical"], "life": ["lexical"]}


# ---------------------------------------------------------------- replies


SAID_IN_CALL = (
    "We sail in May.",
    "Cool, where?",
    "At the lake.",
    "And who cooks?",
    "Ben, or who?",
    "Ben.",
)
CALL = [
    segment(f"t{place}", text, session="call", event_time=NOON - timedelta(minutes=9 - place))
    for place, text in enumerate(SAID_IN_CALL)
]


class FollowingIndex(EngineIndex):
    """An index of what an engine gets when somebody waits for a write; or, if `late`, never."""

    def __init__(self, *, late: bool) -> None:
        self._rows = InMemoryIndex()
        self._late = late
        super().__init__(self._rows)

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        if not self._late:
            self._rows.apply([segment_row(each, unit(1)) for each in CALL], [])
        return not self._late

    async def adjacent(self, query: Query, *asked: Any) -> AdjacencyAnswer:
        stale = query.token is not None and not await self.caught_up(query.token, asked[-1])
        return (await super().adjacent(query, *asked))._replace(stale=stale)


async def replied(
    found: str | None,
    space: VectorSpace | None = None,
    seeds: int = 40,
    token: ConsistencyToken | None = None,
) -> Retrieval:
    """What the leg finds after what words find, or if these break."""
    expansion = Expansion(found_by=("lexical",), seeds=seeds)
    legs: dict[str, Leg] = {
        "lexical": BrokenLeg(RuntimeError("a bug")) if found is None else FixedLeg(found),
        "dense": FixedLeg(),
        "replies": RepliesLeg(),
    }
    specs = *TWO_LEGS.legs, LegSpec(name="replies", expansion=expansion)
    profile = Profile(name="replies", legs=specs)
    asked = query("?", token=token)
    return await answered(CALL, legs, profile, asked, space=space or space_of(*CALL))


async def test_replies_follow_the_questions_that_words_find() -> None:
    answer = await replied("t1 t3 t0")

    assert hit_ids(answer) == ["t1", "t2", "t3", "t4", "t0"]
    terms = [
        (hit.item.id, term.rank, term.path)
        for hit in answer.hits
        for term in hit.ledger.leg_terms
        if term.leg == "replies"
    ]
    assert terms == [("t2", 1, "after t1"), ("t4", 2, "after t3")]


async def test_replies_follow_only_the_first_candidates() -> None:
    answer = await replied("t0 t1", seeds=1)

    assert hit_ids(answer) == ["t0", "t1"]


@pytest.mark.parametrize(
    ("late", "state", "found"),
    [(False, LegState.OK, ["t1", "t2"]), (True, LegState.STALE, ["t1"])],
)
async def test_replies_wait_for_the_write_of_the_token(
    late: bool, state: LegState, found: list[str]
) -> None:
    space = VectorSpace.here(FakeEmbedder(), FollowingIndex(late=late))

    answer = await replied("t1", space, token=ConsistencyToken.of("1", [5]))

    assert (answer.reports[2].state, hit_ids(answer)) == (state, found)


@pytest.mark.parametrize(
    ("found", "space", "reason"),
    [
        ("t1", some_space(), "no shard of the index knows all turns of a session"),
        (None, None, "no candidate to start from; lexical: internal error"),
    ],
)
async def test_replies_are_skipped_without_index_or_words(
    found: str | None, space: VectorSpace | None, reason: str
) -> None:
    answer = await replied(found, space)

    report = answer.reports[2]
    assert (report.leg, report.state, report.reason) == ("replies", LegState.SKIPPED, reason)
