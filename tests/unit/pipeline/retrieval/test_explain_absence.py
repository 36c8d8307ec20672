from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.domain.errors import DependencyError
from serving.domain.items.records import Item, ItemId, TenantName, fact_id, segment_id
from serving.domain.questions.query import NO_FILTER, Filter, TimeRange
from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.leg_options import CandidatePool, Walk, WordsMode, WordsSearch
from serving.domain.ranking.priors import Decay, Importance, ImportanceStyle
from serving.domain.ranking.profile import Diversity, LegSpec, Profile, Rerank, Sort
from serving.pipeline.retrieval.explain_absence import Absence, AbsenceExplainer
from serving.pipeline.retrieval.explain_leg_absence import Loss
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest, LegSkippedError
from serving.ports.graph import GraphChanges
from serving.ports.memory_store import Batch
from tests.fakes.graph import InMemoryGraph
from tests.fakes.pipeline import BrokenLeg, FixedLeg, FixedReranker
from tests.fakes.store import InMemoryStore
from tests.support.builders import NOON, TENANT, days, fact, ids, query, scope, segment
from tests.support.examples import examples
from tests.unit.pipeline.retrieval.retrieving import retriever, some_space, soon, steps, store_of

PLAIN = Profile(
    name="plain",
    legs=(LegSpec(name="lexical", depth=2), LegSpec(name="dense", depth=2)),
    limit=2,
    fold_repeats=False,
)


async def explained(
    store: InMemoryStore,
    legs: Mapping[str, Leg],
    item: str | ItemId,
    profile: Profile = PLAIN,
    *,
    logits: Mapping[str, float] | None = None,
    filter_: Filter = NO_FILTER,
    known_at: datetime | None = None,
) -> Absence:
    reranker = FixedReranker(logits) if logits else None
    explainer = AbsenceExplainer(
        steps(store, legs, reranker=reranker), store, some_space(), InMemoryGraph()
    )
    return await explainer.explain(
        query("?", scope=scope(filter_=filter_, known_at=known_at)),
        profile,
        segment_id(item) if isinstance(item, str) else item,
        soon(),
    )


def texts(names: str = "abcdef") -> list[Item]:
    words = ["one", "two", "three", "four", "five", "six"]
    return [segment(name, word) for name, word in zip(names, words, strict=False)]


async def test_item_in_the_answer_was_not_lost() -> None:
    absence = await explained(await store_of(*texts()), {"lexical": FixedLeg("a b")}, "b")

    assert (absence.loss, absence.rank) == (Loss.NONE, 2)
    assert absence.hit is not None


async def test_item_of_another_tenant_is_not_found() -> None:
    store = await store_of(*texts())
    await store.write(Batch(TenantName("other"), [segment("theirs")]))

    for name in ("nobody", "theirs"):
        absence = await explained(store, {"lexical": FixedLeg("a")}, name)
        assert absence == Absence(loss=Loss.NOT_STORED, reason="the tenant has no such item")


@pytest.mark.parametrize(
    ("filter_", "named"),
    [
        (Filter(speakers=("mel",)), "filter.speakers: it does not pass"),
        (Filter(min_importance=0.9), "filter.min_importance: it does not pass"),
        (
            Filter(kinds=("note",), event_time=TimeRange(NOON + days(0.1))),
            "filter.kinds and filter.event_time: it does not pass",
        ),
    ],
)
async def test_a_filter_that_hides_it_is_named(filter_: Filter, named: str) -> None:
    absence = await explained(
        await store_of(*texts()), {"lexical": FixedLeg("a")}, "b", filter_=filter_
    )

    assert (absence.loss, absence.reason) == (Loss.FILTERED, named)


async def test_segment_after_the_clock_is_hidden() -> None:
    store = await store_of(segment("later", event_time=NOON + days(9)))

    absence = await explained(store, {"lexical": FixedLeg("later")}, "later")

    assert absence.loss is Loss.FILTERED
    assert absence.reason.startswith("as_of: it was said later")


async def test_fact_is_hidden_by_time_or_evidence() -> None:
    store = await store_of(
        segment("s", speaker="Tom"),
        fact("over", "a", "b", "c", valid_to=NOON),
        fact("wrong", "a", "b", "c", retracted_at=NOON),
        fact("toms", "a", "b", "c", evidence=("s",), closes=("closed",)),
        fact("closed", "a", "b", "c"),
    )
    legs = {"facts": FixedLeg()}
    profile = replace(PLAIN, legs=(LegSpec(name="facts"),))

    over = await explained(store, legs, fact_id("over"), profile)
    wrong = await explained(store, legs, fact_id("wrong"), profile)
    closed = await explained(store, legs, fact_id("closed"), profile)
    mels = await explained(store, legs, fact_id("toms"), profile, filter_=Filter(speakers=("mel",)))

    assert over.reason == "as_of: the fact does not hold then"
    assert wrong.reason == f"known_at: it was retracted, at {NOON.isoformat()}"
    assert closed.reason == "as_of: the fact does not hold then, it was closed by toms"
    assert mels.reason == "filter.speakers: it does not pass"


async def test_a_fact_with_sensitive_evidence_is_never_projected() -> None:
    store = await store_of(
        segment("s", sensitive=True), fact("on it", "a", "b", "c", evidence=("s",))
    )
    profile = replace(PLAIN, legs=(LegSpec(name="facts"),))

    absence = await explained(store, {"facts": FixedLeg()}, fact_id("on it"), profile)

    assert absence.loss is Loss.NOT_MATCHED
    assert (
        absence.reason
        == "the evidence of the fact is sensitive, so it is never embedded nor in the graph"
    )


async def test_sensitive_items_are_found_by_words_only() -> None:
    store = await store_of(
        segment("said", sensitive=True), fact("private", "a", "b", "c", sensitive=True)
    )
    profile = replace(PLAIN, legs=(LegSpec(name="facts"),))

    of_fact = await explained(store, {"facts": FixedLeg()}, fact_id("private"), profile)
    of_segment = await explained(store, {"facts": FixedLeg()}, "said", profile)

    assert of_fact.reason == of_segment.reason
    assert of_fact.reason == "the item is sensitive, so it is never embedded nor in the graph"
    assert [leg.reason for leg in of_fact.legs] == ["the item is sensitive, and so found by no leg"]
    assert [leg.reason for leg in of_segment.legs] == [
        "the item is sensitive, and so found by words only"
    ]


async def test_closing_fact_is_named_only_while_known() -> None:
    later = {"closes": ("closed",), "valid_from": NOON - days(9), "recorded_at": NOON + days(9)}
    store = await store_of(
        fact("closed", "a", "b", "c"),
        fact("known", "a", "b", "c", closes=("closed",)),
        fact("not known", "a", "b", "c", **later),
    )
    profile = replace(PLAIN, legs=(LegSpec(name="facts"),))

    closed = await explained(
        store, {"facts": FixedLeg()}, fact_id("closed"), profile, known_at=NOON + days(1)
    )

    assert closed.reason == "as_of: the fact does not hold then, it was closed by known"


async def test_item_below_depth_has_rank_and_score() -> None:
    absence = await explained(
        await store_of(*texts()), {"lexical": FixedLeg("a b c"), "dense": FixedLeg("a")}, "c"
    )

    assert absence.loss is Loss.BELOW_DEPTH
    assert absence.reason == "lexical: rank 3 is below the depth 2"
    lexical, dense = absence.legs
    assert (lexical.rank, lexical.score, lexical.depth) == (3, 1 / 3, 2)
    assert (dense.rank, dense.reason) == (None, "not among its best 1000")


class FlooredLeg(FixedLeg):
    """Finds the given items, down to the floor that is asked for."""

    async def find(self, request: LegRequest) -> LegAnswer:
        finding = await super().find(request)
        floor = request.spec.floor
        kept = [one for one in finding.candidates if floor is None or one.score >= floor]
        return replace(finding, candidates=kept)


async def test_item_below_floor_has_its_score() -> None:
    profile = replace(PLAIN, legs=(LegSpec(name="dense", floor=0.9),))

    absence = await explained(await store_of(*texts()), {"dense": FlooredLeg("a b")}, "b", profile)

    assert absence.loss is Loss.BELOW_DEPTH
    assert absence.reason == "dense: score 0.5 is below the floor 0.9"


async def test_unfound_item_is_unmatched_or_unprojected() -> None:
    store = await store_of(*texts())
    legs = {"lexical": FixedLeg("a"), "dense": FixedLeg("a")}

    by_words = await explained(store, legs, "b", replace(PLAIN, legs=(LegSpec(name="lexical"),)))
    by_meaning = await explained(store, legs, "b")

    assert by_words.loss is Loss.NOT_MATCHED
    assert (by_meaning.loss, by_meaning.reason) == (
        Loss.NOT_PROJECTED,
        "not in the vector index yet",
    )


async def test_a_leg_that_was_not_asked_says_so() -> None:
    legs: dict[str, Leg] = {
        "lexical": FixedLeg("a"),
        "dense": BrokenLeg(LegSkippedError("the weight of the leg is 0")),
    }

    absence = await explained(await store_of(*texts()), legs, "b")

    assert [leg.reason for leg in absence.legs] == [
        "not among its best 1000",
        "the weight of the leg is 0",
    ]


async def test_disabled_leg_is_no_unanswered_leg() -> None:
    profile = replace(PLAIN, legs=(LegSpec(name="lexical"), LegSpec(name="temporal", weight=0)))
    legs = {"lexical": FixedLeg("a"), "temporal": FixedLeg("b")}

    absence = await explained(await store_of(*texts()), legs, "b", profile)

    assert (absence.loss, absence.legs[1].reason) == (
        Loss.NOT_MATCHED,
        "the weight of the leg is 0",
    )


async def test_the_repeat_that_stands_for_it_is_named() -> None:
    store = await store_of(segment("a", "we fly to Goa"), segment("b", "We fly to Goa!"))
    folding = replace(PLAIN, fold_repeats=True)

    for leg in (FixedLeg("a b"), FixedLeg("a=b")):  # folded by their rows, and before they rank
        absence = await explained(store, {"lexical": leg}, "a", folding)

        assert (absence.loss, absence.by) == (Loss.FOLDED, segment_id("b"))


async def test_cut_item_has_its_rank() -> None:
    absence = await explained(
        await store_of(*texts()),
        {"lexical": FixedLeg("a b"), "dense": FixedLeg("a c")},
        "c",
        replace(PLAIN, limit=2),
    )

    assert (absence.loss, absence.rank) == (Loss.CUT, 3)
    assert absence.reason == "the item is at rank 3, and the limit is 2"


async def test_displacement_by_age_is_explained() -> None:
    store = await store_of(segment("old", "one", event_time=NOON - days(300)), *texts("bc"))

    absence = await explained(
        store,
        {"lexical": FixedLeg("old b c")},
        "old",
        replace(PLAIN, legs=(LegSpec(name="lexical"),), decay=Decay()),
    )

    assert (absence.loss, absence.rank) == (Loss.DECAYED, 3)
    assert absence.reason.endswith("at rank 1 without decay by age")


async def test_displacement_by_diversity_names_the_hit() -> None:
    store = await store_of(
        segment("a", "we fly to Goa in March"),
        segment("b", "we fly to Goa in April"),
        segment("c", "the cat is ill"),
    )
    profile = replace(PLAIN, legs=(LegSpec(name="dense"),), diversity=Diversity())

    absence = await explained(store, {"dense": FixedLeg("a b c")}, "b", profile)

    assert (absence.loss, absence.by) == (Loss.DISPLACED, segment_id("a"))
    assert absence.reason.endswith("at rank 2 before diversification")


async def test_most_similar_hit_is_named_as_displacer() -> None:
    store = await store_of(
        segment("first", "the cat is ill"),
        segment("second", "we fly to Goa in March"),
        segment("like it", "we fly to Goa in April"),
        segment("novel", "an umbrella"),
    )
    profile = replace(
        PLAIN, legs=(LegSpec(name="dense"),), limit=3, diversity=Diversity(trade_off=0.5)
    )
    found = ids("first", "second", "like it", "novel")

    absence = await explained(store, {"dense": FixedLeg(found)}, "like it", profile)

    assert (absence.loss, absence.by) == (Loss.DISPLACED, segment_id("second"))


RERANKED = replace(
    PLAIN,
    legs=(LegSpec(name="dense", depth=9),),
    fusion=FusionMethod.SCORE,
    rerank=Rerank(head=3),
    limit=2,
)
LOGITS = {"one": -9.0, "two": 0.0, "three": 3.0, "four": 9.0}


@pytest.mark.parametrize(
    ("name", "loss", "said"),
    [
        ("a", Loss.RERANKED_DOWN, "at rank 1 before reranking"),
        ("d", Loss.BELOW_HEAD, "the item was not reranked"),
    ],
)
async def test_displacement_by_reranking_is_explained(name: str, loss: Loss, said: str) -> None:
    absence = await explained(
        await store_of(*texts("abcd")),
        {"dense": FixedLeg("a b c d")},
        name,
        RERANKED,
        logits=LOGITS,
    )

    assert absence.loss is loss
    assert absence.reason.endswith(said)


async def test_deeper_search_runs_legs_without_reranking() -> None:
    store = await store_of(*texts("abcd"))
    reranker = FixedReranker(LOGITS)
    asked = steps(store, {"dense": FixedLeg("a b c d")}, reranker=reranker)
    explainer = AbsenceExplainer(asked, store, some_space(), InMemoryGraph())

    await explainer.explain(query("?"), RERANKED, segment_id("d"), soon())
    once = len(reranker.asked)
    diverse = replace(RERANKED, diversity=Diversity())
    await explainer.explain(query("?"), diverse, segment_id("d"), soon())

    assert (once, len(reranker.asked)) == (3, 6)


class LookingBackLeg(FixedLeg):
    """Finds the given items, but for what was said before the time that it is asked for."""

    def __init__(self, found: str, said: Mapping[str, datetime]) -> None:
        super().__init__(found)
        self._said = said

    async def find(self, request: LegRequest) -> LegAnswer:
        finding = await super().find(request)
        asked = request.query.scope.filter.event_time
        kept = [one for one in finding.candidates if self._said[one.item.id] in asked]
        return replace(finding, candidates=kept)


async def test_item_beyond_lookback_has_its_unlimited_rank() -> None:
    old = segment("old", "one", event_time=NOON - days(30))
    store = await store_of(old, segment("new", "two"))
    leg = LookingBackLeg("old new", {"old": old.event_time, "new": NOON})
    profile = replace(PLAIN, legs=(LegSpec(name="lexical", lookback=days(7)),))

    absence = await explained(store, {"lexical": leg}, "old", profile)

    assert absence.loss is Loss.NOT_SEARCHED
    assert absence.reason == "lexical: the item is further back than the lookback of 7 days"
    assert (absence.legs[0].rank, absence.legs[0].loss) == (1, Loss.NOT_SEARCHED)


class PooledLeg(FixedLeg):
    """Finds those of the given items that are in its pool."""

    def __init__(self, found: str, recent: str) -> None:
        super().__init__(found)
        self._recent = ids(*recent.split())

    async def find(self, request: LegRequest) -> LegAnswer:
        finding = await super().find(request)
        if request.spec.pool is None:
            return finding
        joined = await request.found_before(request.spec.pool.joined_by)
        pool = {*self._recent, *joined.items}
        kept = [one for one in finding.candidates if one.item in pool]
        return replace(finding, candidates=kept)


async def test_item_outside_the_pool_is_explained() -> None:
    pool = CandidatePool(recently_accessed=1, joined_by=("lexical",))
    profile = replace(
        PLAIN,
        legs=(LegSpec(name="lexical", depth=1), LegSpec(name="dense", pool=pool)),
    )
    legs = {"lexical": FixedLeg("a b"), "dense": PooledLeg("b c a", "c")}

    absence = await explained(await store_of(*texts()), legs, "b", profile)

    lexical, dense = absence.legs
    assert absence.loss is Loss.BELOW_DEPTH
    assert lexical.reason == "rank 2 is below the depth 1"
    assert dense.reason == "the item is not among the 1 accessed last, and not found by lexical"
    assert (dense.rank, dense.loss) == (1, Loss.NOT_SEARCHED)


async def test_item_that_two_restrictions_may_hide_names_both() -> None:
    old = segment("old", "one", event_time=NOON - days(1.5))
    said = {"old": old.event_time}
    profile = replace(
        PLAIN,
        legs=(LegSpec(name="dense", lookback=days(1), pool=CandidatePool(recently_accessed=5)),),
    )

    class Both(LookingBackLeg):
        async def find(self, request: LegRequest) -> LegAnswer:
            finding = await super().find(request)
            return finding if request.spec.pool is None else replace(finding, candidates=[])

    absence = await explained(await store_of(old), {"dense": Both("old", said)}, "old", profile)

    assert absence.reason == (
        "dense: the item is further back than the lookback of 1 day, "
        "or the item is not among the 5 accessed last"
    )


class SeededLeg(FixedLeg):
    """Finds the given items, once for each segment that it may start from."""

    async def find(self, request: LegRequest) -> LegAnswer:
        seeds = await request.found_before(request.spec.walk.seeds_from)
        finding = await super().find(request)
        return replace(finding, candidates=finding.candidates[: len(seeds.items)])


async def test_explained_walk_starts_from_its_real_seeds() -> None:
    walk = Walk(seeds_from=("dense",))
    profile = replace(
        PLAIN, legs=(LegSpec(name="dense", depth=1), LegSpec(name="graph", walk=walk))
    )
    legs = {"dense": FixedLeg("a b c"), "graph": SeededLeg("d e")}

    absence = await explained(await store_of(*texts()), legs, "e", profile)

    assert absence.legs[1].rank is None
    assert absence.legs[1].reason == "not among its best 1000, from what dense found"


async def test_deeper_walk_starts_from_all_its_seeds() -> None:
    walk = Walk(seeds_from=("dense",))
    profile = replace(
        PLAIN, legs=(LegSpec(name="dense", depth=2), LegSpec(name="graph", depth=1, walk=walk))
    )
    legs = {"dense": FixedLeg("a b c"), "graph": SeededLeg("d e")}

    absence = await explained(await store_of(*texts()), legs, "e", profile)

    assert (absence.loss, absence.legs[1].rank) == (Loss.BELOW_DEPTH, 2)


class WordsLeg(FixedLeg):
    """Rows with all words, if any; else those with some, whose rank is above the gate."""

    async def find(self, request: LegRequest) -> LegAnswer:
        finding = await super().find(request)
        words, (all_words, *some) = request.spec.words, finding.candidates
        if words.mode is WordsMode.ANY:
            return finding
        kept = [one for one in some if one.score > words.rank_gate]
        return replace(finding, candidates=[all_words, *kept])


async def test_ignored_words_are_named() -> None:
    words = WordsSearch(mode=WordsMode.ALL_THEN_ANY, rank_gate=0.9)
    profile = replace(PLAIN, legs=(LegSpec(name="lexical", words=words),))

    absence = await explained(await store_of(*texts()), {"lexical": WordsLeg("a b")}, "b", profile)

    assert (absence.loss, absence.reason) == (
        Loss.NOT_SEARCHED,
        "lexical: the item has some of the words, and enough others have all of them "
        "or its rank is not above the gate of 0.9",
    )


class TiringLeg(FixedLeg):
    """Answers once."""

    async def find(self, request: LegRequest) -> LegAnswer:
        if self.requests:
            raise DependencyError("index", "is tired")
        return await super().find(request)


async def test_leg_failing_in_deeper_search_is_reported_failed() -> None:
    legs = {"lexical": FixedLeg("a"), "dense": TiringLeg("a")}

    both = await explained(await store_of(*texts()), legs, "b")
    alone = await explained(
        await store_of(*texts()),
        {"dense": TiringLeg("a")},
        "b",
        replace(PLAIN, legs=(LegSpec(name="dense"),)),
    )

    said = "dense: no answer to a deeper search"
    assert (both.loss, alone.loss) == (Loss.UNANSWERED, Loss.UNANSWERED)
    assert both.reason.startswith(f"{said}: index")
    assert alone.reason == said


class WakingLeg(FixedLeg):
    """Answers from the second time on."""

    async def find(self, request: LegRequest) -> LegAnswer:
        finding = await super().find(request)
        if len(self.requests) == 1:
            raise TimeoutError
        return finding


async def test_late_leg_is_reported_late_and_not_shallow() -> None:
    legs = {"lexical": FixedLeg("a"), "dense": WakingLeg("b")}

    absence = await explained(await store_of(*texts()), legs, "b")

    assert (absence.loss, absence.reason) == (Loss.UNANSWERED, "dense: the budget ran out")
    assert absence.legs[1].rank == 1


RESERVING = replace(
    PLAIN,
    legs=(LegSpec(name="dense"), LegSpec(name="graph", weight=0.1, reserved=2)),
    limit=3,
)


async def test_displacement_by_reserved_place_names_the_leg() -> None:
    legs = {"dense": FixedLeg("a b c d"), "graph": FixedLeg("e f")}
    store = await store_of(*texts())

    lost = [await explained(store, legs, name, RESERVING) for name in "bcd"]
    shown = await explained(store, legs, "f", RESERVING)

    assert [(each.loss, each.rank, each.by) for each in lost] == [
        (Loss.DISPLACED, 2, segment_id("f")),
        (Loss.DISPLACED, 3, segment_id("e")),
        (Loss.CUT, 4, None),
    ]
    assert lost[1].reason == "the item is at rank 3; 'e' took the place reserved for graph"
    assert (shown.loss, shown.rank) == (Loss.NONE, 3)
    assert shown.hit is not None
    assert shown.hit.ledger.reserved_by == "graph"


async def test_displacer_is_the_most_similar_hit() -> None:
    store = await store_of(
        segment("a", "the cat is ill"),
        segment("b", "we fly to Goa in March"),
        segment("c", "we fly to Goa in April"),
        segment("d", "bread and salt"),
    )
    profile = replace(PLAIN, legs=(LegSpec(name="dense"),), diversity=Diversity(), limit=3)

    absence = await explained(store, {"dense": FixedLeg("a b c d")}, "c", profile)

    assert (absence.loss, absence.by) == (Loss.DISPLACED, segment_id("b"))


async def test_sensitive_item_is_reported_as_not_reranked() -> None:
    store = await store_of(*texts("abc"), segment("s", "six", sensitive=True))
    legs = {"dense": FixedLeg("a b s c")}

    lost = await explained(store, legs, "s", RERANKED, logits=LOGITS)

    assert (lost.loss, lost.reason) == (
        Loss.BELOW_HEAD,
        "the item is at rank 4, and the limit is 2; a sensitive item is not reranked",
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


def unreserved(profile: Profile) -> Profile:
    return replace(profile, legs=tuple(replace(leg, reserved=0) for leg in profile.legs))


def bottomless(profile: Profile) -> Profile:
    return replace(profile, legs=tuple(replace(leg, depth=100, floor=None) for leg in profile.legs))


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
    legs = {"lexical": FlooredLeg(" ".join(lexical)), "dense": FlooredLeg(" ".join(dense))}

    async def shown(of: Profile) -> list[str]:
        ask = retriever(store, legs, reranker=FixedReranker(logits))
        return [hit.item.id for hit in (await ask.retrieve(query("?"), of, soon())).hits]

    answer = await shown(profile)
    endless = await shown(replace(profile, limit=6))
    unfolded = await shown(replace(profile, limit=6, fold_repeats=False))
    everything = await shown(bottomless(replace(profile, limit=6, fold_repeats=False)))
    coarse = await shown(replace(profile, limit=6, rerank=None, diversity=None))
    steps = {
        Loss.DISPLACED: [unreserved(profile), replace(profile, diversity=None)],
        Loss.RERANKED_DOWN: [replace(profile, rerank=None)],
        Loss.DECAYED: [replace(profile, decay=None)],
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
        absence = await explained(store, legs, item, profile, logits=logits)
        assert absence.loss is expected(item)
        if item in answer:
            assert absence.rank == answer.index(item) + 1
        elif item in endless:
            assert absence.rank == endless.index(item) + 1
        else:
            assert absence.rank is None
        for leg, found in zip(absence.legs, (lexical, dense), strict=True):
            assert leg.rank == (found.index(item) + 1 if item in found else None)


async def test_only_unprojected_items_are_reported_pending() -> None:
    store = await store_of(*texts())
    graph = InMemoryGraph()
    profile = replace(PLAIN, legs=(LegSpec(name="graph"),))
    answering = steps(store, {"graph": FixedLeg()})
    explainer = AbsenceExplainer(answering, store, some_space(), graph)

    before = await explainer.explain(query("?"), profile, segment_id("a"), soon())
    there = [(TENANT, segment("a", "one"))]
    await graph.apply(GraphChanges(segments=there))
    after = await explainer.explain(query("?"), profile, segment_id("a"), soon())

    assert (before.loss, before.reason) == (Loss.NOT_PROJECTED, "not in the graph yet")
    assert after.loss is Loss.NOT_MATCHED
