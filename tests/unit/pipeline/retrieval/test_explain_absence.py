from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.domain.errors import DependencyError
from serving.domain.items.records import Item, ItemId, TenantName, fact_id, segment_id
from serving.domain.questions.query import Filter, Query, Scope, TimeRange
from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.leg_options import CandidatePool, Walk, WordsMode, WordsSearch
from serving.domain.ranking.priors import Decay, Importance, ImportanceStyle
from serving.domain.ranking.profile import Diversity, LegSpec, Profile, Rerank, Sort
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.explain_absence import Absence, AbsenceExplainer
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest, LegSkippedError
from serving.pipeline.retrieval.order.loss import Loss
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import Batch
from tests.fakes.graph import InMemoryGraph
from tests.fakes.pipeline import BrokenLeg, FixedLeg, FixedReranker
from tests.fakes.store import InMemoryStore
from tests.support.builders import NOON, TENANT, days, fact, ids, query, scope, segment
from tests.support.examples import examples
from tests.unit.pipeline.retrieval.retrieving import (
    answered,
    hit_ids,
    some_space,
    soon,
    steps,
    store_of,
)

PLAIN = Profile(
    name="plain",
    legs=(LegSpec(name="lexical", depth=2), LegSpec(name="dense", depth=2)),
    limit=2,
    fold_repeats=False,
)


def asking(*legs: LegSpec, **changes: Any) -> Profile:
    return replace(PLAIN, legs=legs, **changes)


WORDS = asking(LegSpec(name="lexical"))
MEANING = asking(LegSpec(name="dense"))
FACTS = asking(LegSpec(name="facts"))
SIX = [
    segment(name, word)
    for name, word in zip("abcdef", ("one", "two", "three", "four", "five", "six"), strict=True)
]
FOUR = SIX[:4]
QUESTION = query("?")


async def explained(
    stored: InMemoryStore | Sequence[Item],
    legs: Mapping[str, Leg],
    item: str | ItemId,
    profile: Profile = PLAIN,
    *,
    reranker: FixedReranker | None = None,
    graph: InMemoryGraph | None = None,
    asked: Query = QUESTION,
) -> Absence:
    store = stored if isinstance(stored, InMemoryStore) else await store_of(*stored)
    answering = steps(store, legs, reranker=reranker)
    explainer = AbsenceExplainer(answering, store, some_space(), graph or InMemoryGraph())
    item = segment_id(item) if isinstance(item, str) else item
    return await explainer.explain(asked, profile, item, soon())


class KeepingLeg(FixedLeg):
    """Finds those of the given items that it keeps for a request."""

    def __init__(self, found: str, keeps: Callable[[LegRequest, Candidate], bool]) -> None:
        super().__init__(found)
        self._keeps = keeps

    async def find(self, request: LegRequest) -> LegAnswer:
        finding = await super().find(request)
        kept = [one for one in finding.candidates if self._keeps(request, one)]
        return replace(finding, candidates=kept)


def above_floor(request: LegRequest, one: Candidate) -> bool:
    return request.spec.floor is None or one.score >= request.spec.floor


async def test_item_of_another_tenant_is_not_found() -> None:
    store = await store_of(*SIX)
    await store.write(Batch(TenantName("other"), [segment("theirs")]))

    for name in ("nobody", "theirs"):
        absence = await explained(store, {"lexical": FixedLeg("a")}, name)
        assert absence == Absence(loss=Loss.NOT_STORED, reason="the tenant has no such item")


OF_MEL = scope(filter_=Filter(speakers=("mel",)))
LATER = NOON + days(9)


@pytest.mark.parametrize(
    ("item", "within", "reason"),
    [
        ("b", OF_MEL, "filter.speakers: it does not pass"),
        ("b", scope(filter_=Filter(min_importance=0.9)), "filter.min_importance: it does not pass"),
        (
            "b",
            scope(filter_=Filter(kinds=("note",), event_time=TimeRange(NOON + days(0.1)))),
            "filter.kinds and filter.event_time: it does not pass",
        ),
        ("later", scope(), f"as_of: it was said later, at {LATER.isoformat()}"),
        (fact_id("over"), scope(), "as_of: the fact does not hold then"),
        (fact_id("wrong"), scope(), f"known_at: it was retracted, at {NOON.isoformat()}"),
        (fact_id("closed"), scope(), "as_of: the fact does not hold then, it was closed by toms"),
        (fact_id("toms"), OF_MEL, "filter.speakers: it does not pass"),
        (fact_id("expired"), scope(), "as_of: it has expired, or all of its evidence has"),
        (
            fact_id("ended"),
            scope(known_at=NOON + days(1)),
            "as_of: the fact does not hold then, it was closed by known",
        ),
    ],
)
async def test_hidden_item_is_reported_with_its_reason(
    item: str | ItemId, within: Scope, reason: str
) -> None:
    stored: list[Item] = [
        *SIX,
        segment("later", event_time=LATER),
        segment("s", speaker="Tom"),
        fact("over", "a", "b", "c", valid_to=NOON),
        fact("wrong", "a", "b", "c", retracted_at=NOON),
        fact("toms", "a", "b", "d", evidence=("s",), closes=("closed",)),
        fact("closed", "a", "b", "d"),
        fact("expired", "a", "b", "c", expires_at=NOON),
        fact("ended", "a", "b", "e"),
        fact("known", "a", "b", "e", closes=("ended",)),
        fact(
            "unknown",
            "a",
            "b",
            "e",
            closes=("ended",),
            valid_from=NOON - days(9),
            recorded_at=LATER,
        ),
    ]

    absence = await explained(stored, {}, item, FACTS, asked=query("?", scope=within))

    assert (absence.loss, absence.reason) == (Loss.FILTERED, reason)


@pytest.mark.parametrize(
    ("item", "what", "reason"),
    [
        (fact_id("on it"), "the evidence of the fact", "not among its best 1000"),
        (fact_id("private"), "the item", "the item is sensitive, and so found by no leg"),
        (segment_id("said"), "the item", "the item is sensitive, and so found by words only"),
    ],
)
async def test_sensitive_items_are_found_by_words_only(
    item: ItemId, what: str, reason: str
) -> None:
    stored: list[Item] = [
        segment("said", sensitive=True),
        fact("on it", "a", "b", "c", evidence=("said",)),
        fact("private", "a", "b", "c", sensitive=True),
    ]

    absence = await explained(stored, {"facts": FixedLeg()}, item, FACTS)

    assert (absence.loss, absence.reason) == (
        Loss.NOT_MATCHED,
        f"{what} is sensitive, so it is never embedded nor in the graph",
    )
    assert [leg.reason for leg in absence.legs] == [reason]


async def test_item_below_depth_has_rank_and_score() -> None:
    absence = await explained(SIX, {"lexical": FixedLeg("a b c"), "dense": FixedLeg("a")}, "c")

    assert absence.loss is Loss.BELOW_DEPTH
    assert absence.reason == "lexical: rank 3 is below the depth 2"
    lexical, dense = absence.legs
    assert (lexical.rank, lexical.score, lexical.depth) == (3, 1 / 3, 2)
    assert (dense.rank, dense.reason) == (None, "not among its best 1000")


OLD = segment("old", "one", event_time=NOON - days(30))


def within_lookback(request: LegRequest, one: Candidate) -> bool:
    said = OLD.event_time if one.item == OLD.item else NOON
    return said in request.query.scope.filter.event_time


class TiringLeg(FixedLeg):
    """Answers once."""

    async def find(self, request: LegRequest) -> LegAnswer:
        if self.requests:
            raise DependencyError("index", "is tired")
        return await super().find(request)


class WakingLeg(FixedLeg):
    async def find(self, request: LegRequest) -> LegAnswer:
        finding = await super().find(request)
        if len(self.requests) == 1:
            raise TimeoutError
        return finding


POOL = CandidatePool(recently_accessed=5)
GATED = WordsSearch(mode=WordsMode.ALL_THEN_ANY, rank_gate=0.9)


def within_pool(request: LegRequest, one: Candidate) -> bool:
    return request.spec.pool is None and within_lookback(request, one)


def above_gate(request: LegRequest, one: Candidate) -> bool:
    words = request.spec.words
    return words.mode is WordsMode.ANY or one.score > words.rank_gate


UNFOUND: Mapping[str, Sequence[Any]] = {
    "below the floor": (
        *("b", asking(LegSpec(name="dense", floor=0.9))),
        {"dense": KeepingLeg("a b", above_floor)},
        *(Loss.BELOW_DEPTH, "dense: score 0.5 is below the floor 0.9", [2]),
    ),
    "beyond the lookback": (
        *("old", asking(LegSpec(name="lexical", lookback=days(7)))),
        {"lexical": KeepingLeg("old new", within_lookback)},
        Loss.NOT_SEARCHED,
        "lexical: the item is further back than the lookback of 7 days",
        [1],
    ),
    "by one of two restrictions": (
        *("old", asking(LegSpec(name="dense", lookback=days(1), pool=POOL))),
        {"dense": KeepingLeg("old", within_pool)},
        Loss.NOT_SEARCHED,
        "dense: the item is further back than the lookback of 1 day, "
        "or the item is not among the 5 accessed last",
        [1],
    ),
    "by some of the words": (
        *("b", asking(LegSpec(name="lexical", words=GATED))),
        {"lexical": KeepingLeg("a b", above_gate)},
        Loss.NOT_SEARCHED,
        "lexical: the item has some of the words, and enough others have all of them "
        "or its rank is not above the gate of 0.9",
        [2],
    ),
    "by no words": (
        *("b", WORDS, {"lexical": FixedLeg("a")}),
        *(Loss.NOT_MATCHED, "no leg of the profile finds it", [None]),
    ),
    "not embedded": (
        *("b", PLAIN, {"lexical": FixedLeg("a"), "dense": FixedLeg("a")}),
        *(Loss.NOT_PROJECTED, "not in the vector index yet", [None, None]),
    ),
    "by a leg without weight": (
        "b",
        asking(LegSpec(name="lexical"), LegSpec(name="temporal", weight=0)),
        {"lexical": FixedLeg("a"), "temporal": FixedLeg("b")},
        *(Loss.NOT_MATCHED, "no leg of the profile finds it", [None, None]),
    ),
    "failed": (
        *("b", PLAIN, {"lexical": FixedLeg("a"), "dense": TiringLeg("a")}),
        Loss.UNANSWERED,
        "dense: no answer to a deeper search: index: is tired",
        [None, None],
    ),
    "all failed": (
        *("b", MEANING, {"dense": TiringLeg("a")}),
        *(Loss.UNANSWERED, "dense: no answer to a deeper search", [None]),
    ),
    "late": (
        *("b", PLAIN, {"lexical": FixedLeg("a"), "dense": WakingLeg("b")}),
        *(Loss.UNANSWERED, "dense: the budget ran out", [None, 1]),
    ),
}
"""The item, the profile, what its legs find, and how it is lost: why, and at which ranks."""


@pytest.mark.parametrize(
    ("item", "profile", "found", "loss", "reason", "ranks"), UNFOUND.values(), ids=UNFOUND
)
async def test_unfound_item_has_loss_reason_and_ranks(
    item: str,
    profile: Profile,
    found: Mapping[str, Leg],
    loss: Loss,
    reason: str,
    ranks: list[float | None],
) -> None:
    absence = await explained([*SIX, OLD], found, item, profile)

    assert (absence.loss, absence.reason) == (loss, reason)
    assert [leg.rank for leg in absence.legs] == ranks


async def test_leg_that_was_not_asked_keeps_its_reason() -> None:
    profile = asking(*PLAIN.legs, LegSpec(name="temporal", weight=0))
    skipped = BrokenLeg(LegSkippedError("nothing to ask"))
    legs = {"lexical": FixedLeg("a"), "dense": skipped, "temporal": FixedLeg("b")}

    absence = await explained(SIX, legs, "b", profile)

    assert [leg.reason for leg in absence.legs] == [
        "not among its best 1000",
        "nothing to ask",
        "the weight of the leg is 0",
    ]


async def test_only_unprojected_items_are_reported_pending() -> None:
    legs, graph, profile = {"graph": FixedLeg()}, InMemoryGraph(), asking(LegSpec(name="graph"))

    before = await explained(SIX, legs, "a", profile, graph=graph)
    await graph.apply(GraphChanges(segments=[(TENANT, SIX[0])]))
    after = await explained(SIX, legs, "a", profile, graph=graph)

    assert (before.loss, before.reason) == (Loss.NOT_PROJECTED, "not in the graph yet")
    assert after.loss is Loss.NOT_MATCHED


@pytest.mark.parametrize("found", ["a b", "a=b"], ids=["by their rows", "before they rank"])
async def test_repeat_shown_instead_is_named(found: str) -> None:
    stored = [segment("a", "we fly to Goa"), segment("b", "We fly to Goa!")]
    folding = replace(PLAIN, fold_repeats=True)

    absence = await explained(stored, {"lexical": FixedLeg(found)}, "a", folding)

    assert (absence.loss, absence.by) == (Loss.FOLDED, segment_id("b"))


async def test_cut_item_has_its_rank() -> None:
    absence = await explained(SIX, {"lexical": FixedLeg("a b"), "dense": FixedLeg("a c")}, "c")

    assert (absence.loss, absence.rank) == (Loss.CUT, 3)
    assert absence.reason == "the item is at rank 3, and the limit is 2"


AGING = [segment("aged", "one", event_time=NOON - days(300)), *SIX[1:3]]
GOA = [segment("goa", "we fly to Goa in March"), segment("like it", "we fly to Goa in April")]
CAT, UMBRELLA = segment("cat", "the cat is ill"), segment("umbrella", "an umbrella")


async def test_most_similar_hit_is_named_as_displacer() -> None:
    diverse = replace(MEANING, limit=3, diversity=Diversity(trade_off=0.5))
    found = FixedLeg(ids("cat", "goa", "like it", "umbrella"))

    absence = await explained([*GOA, CAT, UMBRELLA], {"dense": found}, "like it", diverse)

    assert (absence.loss, absence.by) == (Loss.DISPLACED, segment_id("goa"))


RERANKED = replace(MEANING, fusion=FusionMethod.SCORE, rerank=Rerank(head=3))
AGED_OUT = replace(RERANKED, rerank=Rerank(head=1), decay=Decay(), limit=1)
"""With it the oldest is not reranked; without its decay it is."""

LOGITS = {"one": -9.0, "two": 0.0, "three": 3.0, "four": 9.0}


@pytest.mark.parametrize(
    ("stored", "name", "profile", "loss", "said"),
    [
        (AGING, "aged", replace(MEANING, decay=Decay()), Loss.DECAYED, "1 without decay by age"),
        (AGING, "aged", AGED_OUT, Loss.DECAYED, "1 without decay by age"),
        (
            [*GOA, CAT],
            "like it",
            replace(MEANING, diversity=Diversity()),
            Loss.DISPLACED,
            "2 before diversification",
        ),
        (FOUR, "a", RERANKED, Loss.RERANKED_DOWN, "1 before reranking"),
        (FOUR, "d", RERANKED, Loss.BELOW_HEAD, "the item was not reranked"),
        (
            [*SIX[:2], segment("s", "six", sensitive=True), SIX[2]],
            *("s", RERANKED, Loss.BELOW_HEAD),
            "the item is at rank 4, and the limit is 2; a sensitive item is not reranked",
        ),
    ],
    ids=["age", "age before reranking", "diversity", "reranking", "head", "sensitive"],
)
async def test_displacement_is_explained_by_its_step(
    stored: list[Item], name: str, profile: Profile, loss: Loss, said: str
) -> None:
    legs = {"dense": FixedLeg([each.item for each in stored])}

    absence = await explained(stored, legs, name, profile, reranker=FixedReranker(LOGITS))

    assert absence.loss is loss
    assert absence.reason.endswith(said)


@pytest.mark.parametrize("diversity", [None, Diversity()])
async def test_deeper_search_runs_legs_without_reranking(diversity: Diversity | None) -> None:
    reranker, profile = FixedReranker(LOGITS), replace(RERANKED, diversity=diversity)

    await explained(FOUR, {"dense": FixedLeg("a b c d")}, "d", profile, reranker=reranker)

    assert len(reranker.asked) == 3


class PooledLeg(FixedLeg):
    """Finds those of the given items that another leg found, and "c"."""

    async def find(self, request: LegRequest) -> LegAnswer:
        finding = await super().find(request)
        if request.spec.pool is None:
            return finding
        joined = await request.found_before(request.spec.pool.joined_by)
        kept = [one for one in finding.candidates if one.item in {*ids("c"), *joined.items}]
        return replace(finding, candidates=kept)


async def test_item_outside_the_pool_is_explained() -> None:
    pool = CandidatePool(recently_accessed=1, joined_by=("lexical",))
    profile = asking(LegSpec(name="lexical", depth=1), LegSpec(name="dense", pool=pool))
    legs = {"lexical": FixedLeg("a b"), "dense": PooledLeg("b c a")}

    absence = await explained(SIX, legs, "b", profile)

    lexical, dense = absence.legs
    assert absence.loss is Loss.BELOW_DEPTH
    assert lexical.reason == "rank 2 is below the depth 1"
    assert dense.reason == "the item is not among the 1 accessed last, and not found by lexical"
    assert (dense.rank, dense.loss) == (1, Loss.NOT_SEARCHED)


class SeededLeg(FixedLeg):
    """Finds the given items, once for each segment that it may start from."""

    async def find(self, request: LegRequest) -> LegAnswer:
        seeds = await request.found_before(request.spec.walk.seeds_from)
        finding = await super().find(request)
        return replace(finding, candidates=finding.candidates[: len(seeds.items)])


@pytest.mark.parametrize(
    ("seeds", "rank", "reason"),
    [
        (1, None, "not among its best 1000, from what dense found"),
        (2, 2, "rank 2 is below the depth 1"),
    ],
)
async def test_explained_walk_starts_from_its_real_seeds(
    seeds: int, rank: int | None, reason: str
) -> None:
    walk = LegSpec(name="graph", depth=1, walk=Walk(seeds_from=("dense",)))
    legs = {"dense": FixedLeg("a b c"), "graph": SeededLeg("d e")}

    absence = await explained(SIX, legs, "e", asking(LegSpec(name="dense", depth=seeds), walk))

    assert (absence.legs[1].rank, absence.legs[1].reason) == (rank, reason)
    assert (absence.loss is Loss.BELOW_DEPTH) is (rank is not None)


async def test_displacement_by_reserved_place_names_the_leg() -> None:
    reserving = asking(
        LegSpec(name="dense"), LegSpec(name="graph", weight=0.1, reserved=2), limit=3
    )
    legs = {"dense": FixedLeg("a b c d"), "graph": FixedLeg("e f")}

    lost = [await explained(SIX, legs, name, reserving) for name in "bcd"]
    shown = await explained(SIX, legs, "f", reserving)

    assert [(each.loss, each.rank, each.by) for each in lost] == [
        (Loss.DISPLACED, 4, segment_id("e")),
        (Loss.DISPLACED, 5, segment_id("f")),
        (Loss.CUT, 6, None),
    ]
    assert lost[1].reason == (
        "the item is at rank 5, and the limit is 3; at rank 3 without reserved places"
    )
    assert (shown.loss, shown.rank) == (Loss.NONE, 3)
    assert shown.hit is not None
    assert shown.hit.ledger.reserved_by == "graph"


async def test_loss_to_a_later_statement_names_it() -> None:
    turns = (
        "We moved to Lisbon in May.",
        "The dentist is on Monday at nine.",
        "The dentist asked about my tooth.",
        "The dentist has a new chair.",
        "My dentist likes the sea.",
        "The dentist is on Tuesday at ten now.",
    )
    stored = [
        segment(f"s{n}", text, speaker="Mara", event_time=NOON + days(n - 9))
        for n, text in enumerate(turns)
    ]
    profile = asking(LegSpec(name="dense"), limit=5, current_first=True)
    legs = {"dense": FixedLeg("s1 s2 s3 s4 s0 s5")}
    asked = query("When is the dentist?", scope=scope())

    answer = await answered(stored, legs, profile, asked)
    absence = await explained(stored, legs, "s0", profile, asked=asked)

    scores = [hit.score for hit in answer.hits]
    assert (hit_ids(answer)[0], scores) == ("s5", sorted(scores, reverse=True))
    assert (absence.loss, absence.by) == (Loss.OUTDATED, segment_id("s5"))
    assert absence.reason == (
        "the item is at rank 6, and the limit is 5; at rank 5 "
        "without a preference for what holds now"
    )


# ------------------------------------------------ against runs that lack one step

SAID = {
    "a": "we fly to Goa in early March one",
    "b": "We fly to Goa, in early March one!",
    "c": "the cat of our neighbour is ill three",
    "d": "THE CAT of our neighbour is ill three",
    "e": "rain on all days five",
    "f": "bread and salt six",
}
"""Two pairs that say the same, and two of their own."""

names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)
places = st.integers(1, 6)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    floors = st.none() | st.sampled_from([0.2, 0.3, 0.5])
    legs = tuple(
        LegSpec(
            name=name,
            weight=draw(st.sampled_from([0.2, 1.0])),
            depth=draw(places),
            floor=draw(floors),
            reserved=draw(st.sampled_from([0, 0, 1, 2])),
        )
        for name in ("lexical", "dense")
    )
    sort = draw(st.sampled_from([Sort.RELEVANCE, Sort.RELEVANCE, *Sort]))
    by_relevance = sort is Sort.RELEVANCE
    head = min(draw(places), sum(leg.depth for leg in legs))
    return replace(
        PLAIN,
        legs=legs,
        limit=draw(st.integers(1, 4)),
        sort=sort,
        decay=draw(st.none() | st.sampled_from([Decay(), Decay(half_life=days(400))])),
        importance=draw(
            st.sampled_from([Importance(), Importance(style=ImportanceStyle.MULTIPLY)])
        ),
        fold_repeats=draw(st.booleans()),
        diversity=draw(st.none() | st.just(Diversity())) if by_relevance else None,
        rerank=draw(st.none() | st.just(Rerank(head=head))) if by_relevance else None,
    )


def each_leg(profile: Profile, **changes: Any) -> Profile:
    return replace(profile, legs=tuple(replace(leg, **changes) for leg in profile.legs))


def place_in(found: Sequence[str], item: str) -> int | None:
    return found.index(item) + 1 if item in found else None


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=examples(150),
    deadline=None,
)
@given(
    lexical=names,
    dense=names,
    profile=profiles(),
    order=st.permutations([-9.0, -3.0, -1.0, 1.0, 3.0, 9.0]),
)
async def test_explanation_equals_runs_without_a_single_step(
    lexical: Sequence[str], dense: Sequence[str], profile: Profile, order: Sequence[float]
) -> None:
    store = await store_of(
        *(
            segment(name, text, event_time=NOON - days(place * 40), importance=place % 3 / 2)
            for place, (name, text) in enumerate(SAID.items())
        )
    )
    logits = dict(zip(SAID.values(), order, strict=True))
    legs = {
        "lexical": KeepingLeg(" ".join(lexical), above_floor),
        "dense": KeepingLeg(" ".join(dense), above_floor),
    }

    async def shown(of: Profile) -> list[str]:
        return hit_ids(await answered(store, legs, of, reranker=FixedReranker(logits)))

    unlimited = replace(profile, limit=6)
    unfolding = replace(unlimited, fold_repeats=False)
    answer = await shown(profile)
    endless = await shown(unlimited)
    unfolded = await shown(unfolding)
    everything = await shown(each_leg(unfolding, depth=100, floor=None))
    in_order = [*answer, *(item for item in endless if item not in answer)]
    coarse = await shown(replace(unlimited, rerank=None, diversity=None))
    steps = {
        Loss.DISPLACED: [each_leg(profile, reserved=0), replace(profile, diversity=None)],
        Loss.RERANKED_DOWN: [replace(profile, rerank=None)],
        Loss.DECAYED: [replace(profile, decay=None)],
        Loss.LESS_IMPORTANT: [replace(profile, importance=Importance())],
    }
    lacking = {loss: [await shown(of) for of in ofs] for loss, ofs in steps.items()}

    def expected(item: str) -> Loss:
        if item in answer:
            return Loss.NONE
        if item not in unfolded:
            return Loss.BELOW_DEPTH if item in everything else Loss.NOT_PROJECTED
        if item not in endless:
            return Loss.FOLDED
        for loss, answers in lacking.items():
            if any(item in other for other in answers):
                return loss
        if profile.rerank is not None and coarse.index(item) >= profile.rerank.head:
            return Loss.BELOW_HEAD
        return Loss.CUT

    for item in SAID:
        absence = await explained(store, legs, item, profile, reranker=FixedReranker(logits))
        assert absence.loss is expected(item)
        assert absence.rank == place_in(in_order, item)
        ranks = [leg.rank for leg in absence.legs]
        assert ranks == [place_in(found, item) for found in (lexical, dense)]
