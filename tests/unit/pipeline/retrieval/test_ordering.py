from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from serving.config.profiles import ProfileBook
from serving.domain.errors import DependencyError
from serving.domain.items.records import segment_id
from serving.domain.questions.query import Filter, TimeRange
from serving.domain.ranking.ledger import FusionMethod
from serving.domain.ranking.leg_options import CandidatePool, Walk
from serving.domain.ranking.priors import Decay
from serving.domain.ranking.profile import (
    Diversity,
    LegSpec,
    Profile,
    Rerank,
    SignalSpec,
    Sort,
)
from serving.domain.ranking.ranked_list import RankStyle
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import DenseLeg, GraphLeg
from serving.pipeline.retrieval.legs.leg import Leg, LegSkippedError
from serving.pipeline.retrieval.ordering import Stage
from tests.fakes.graph import InMemoryGraph
from tests.fakes.pipeline import (
    BrokenLeg,
    FixedConsistency,
    FixedLeg,
    FixedReranker,
    RecordingAccess,
)
from tests.support.builders import NOON, days, fact, ids, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import hit_ids, retriever, soon, steps, store_of

PLAIN = Profile(
    name="plain", legs=(LegSpec(name="lexical"), LegSpec(name="dense")), fold_repeats=False
)


async def test_leg_with_lookback_searches_only_that_time() -> None:
    lexical, dense = FixedLeg("a"), FixedLeg("a")
    profile = replace(
        PLAIN, legs=(LegSpec(name="lexical", lookback=timedelta(hours=168)), LegSpec(name="dense"))
    )

    await retriever(await store_of(segment("a")), {"lexical": lexical, "dense": dense}).retrieve(
        query("?"), profile, soon()
    )

    asked = [leg.requests[0].query.scope for leg in (lexical, dense)]
    assert asked[0].filter.event_time.start == asked[0].as_of - days(7)
    assert asked[1] == scope()


@pytest.mark.parametrize(("asked", "start"), [(-3, -3), (-30, -7)])
async def test_of_a_lookback_and_a_filters_start_the_later_holds(asked: int, start: int) -> None:
    lexical = FixedLeg()
    profile = replace(PLAIN, legs=(LegSpec(name="lexical", lookback=days(7)),))
    narrow = scope(filter_=Filter(event_time=TimeRange(scope().as_of + days(asked))))

    await retriever(await store_of(), {"lexical": lexical}).retrieve(
        query("?", scope=narrow), profile, soon()
    )

    seen = lexical.requests[0].query.scope
    assert seen.filter.event_time.start == seen.as_of + days(start)


@pytest.mark.parametrize("as_of", [NOON, datetime(1, 1, 2, tzinfo=UTC)])
async def test_a_lookback_beyond_the_calendar_looks_at_all_time(as_of: datetime) -> None:
    lexical = FixedLeg()
    profile = replace(PLAIN, legs=(LegSpec(name="lexical", lookback=timedelta.max),))

    await retriever(await store_of(), {"lexical": lexical}).retrieve(
        query("?", scope=scope(as_of=as_of)), profile, soon()
    )

    assert lexical.requests[0].query.scope.filter.event_time.start is None


@pytest.mark.parametrize(
    ("filter_from", "looks_from"), [(days(-1), days(-1)), (days(-9), days(-6))]
)
async def test_lookback_stays_within_the_filter(
    filter_from: timedelta, looks_from: timedelta
) -> None:
    lexical = FixedLeg("a")
    profile = replace(PLAIN, legs=(LegSpec(name="lexical", lookback=days(7)),))
    since = scope(filter_=Filter(event_time=TimeRange(NOON + filter_from, NOON + days(1))))

    await retriever(await store_of(segment("a")), {"lexical": lexical}).retrieve(
        query("?", scope=since), profile, soon()
    )

    asked = lexical.requests[0].query.scope.filter.event_time
    assert asked == TimeRange(NOON + looks_from, NOON + days(1))


async def test_a_depth_per_limit_grows_with_the_answer() -> None:
    lexical = FixedLeg("a")
    profile = replace(PLAIN, legs=(LegSpec(name="lexical", depth_per_limit=4),), limit=6)

    await retriever(await store_of(segment("a")), {"lexical": lexical}).retrieve(
        query("?"), profile, soon()
    )

    assert lexical.requests[0].depth == 2 * 24


async def test_pool_has_accessed_items_and_earlier_finds() -> None:
    profile = replace(
        PLAIN,
        legs=(
            LegSpec(name="lexical"),
            LegSpec(name="dense", pool=CandidatePool(recently_accessed=2, joined_by=("lexical",))),
        ),
    )
    found: list[object] = []

    class Recorded(DenseLeg):
        async def _members(self, pool, request):  # type: ignore[no-untyped-def]
            found.append(await super()._members(pool, request))
            return found[-1]

    access = RecordingAccess(recent=ids("new", "newer", "beyond"))

    await retriever(
        await store_of(segment("old")),
        {"lexical": FixedLeg("old"), "dense": Recorded(access)},
        access=access,
    ).retrieve(query("?"), profile, soon())

    assert found == [(set(ids("new", "newer", "old")), "")]


POOLED = replace(
    PLAIN,
    legs=(
        LegSpec(name="lexical"),
        LegSpec(name="dense", pool=CandidatePool(recently_accessed=2, joined_by=("lexical",))),
    ),
)


@pytest.mark.parametrize(
    ("words", "state", "reason"),
    [
        (FixedLeg("a"), LegState.OK, ""),
        (
            BrokenLeg(TimeoutError()),
            LegState.PARTIAL,
            "upstream leg failed: lexical: the budget ran out",
        ),
        (BrokenLeg(LegSkippedError("the weight of the leg is 0")), LegState.OK, ""),
    ],
)
async def test_pool_without_a_failed_leg_is_partial(
    words: Leg, state: LegState, reason: str
) -> None:
    legs = {"lexical": words, "dense": DenseLeg(RecordingAccess())}

    answer = await retriever(await store_of(segment("a")), legs).retrieve(
        query("?"), POOLED, soon()
    )

    assert (answer.reports[1].state, answer.reports[1].reason) == (state, reason)


@pytest.mark.parametrize(
    ("meaning", "state", "reason"),
    [
        (FixedLeg(), LegState.OK, ""),
        (
            BrokenLeg(DependencyError("index", "is down")),
            LegState.SKIPPED,
            "no entity to start from; dense: index: is down",
        ),
        (
            BrokenLeg(LegSkippedError("the weight of the leg is 0")),
            LegState.SKIPPED,
            "no entity to start from; dense: the weight of the leg is 0",
        ),
    ],
)
async def test_walk_without_seeds_is_no_empty_walk(
    meaning: Leg, state: LegState, reason: str
) -> None:
    graph = LegSpec(name="graph", walk=Walk(seeds_from=("dense",)))
    profile = replace(PLAIN, legs=(LegSpec(name="lexical"), LegSpec(name="dense"), graph))
    walking = GraphLeg(InMemoryGraph(), FixedConsistency())
    legs = {"lexical": FixedLeg("a"), "dense": meaning, "graph": walking}
    store = await store_of(segment("a"), fact("f", "Mel", "likes", "tea"))

    answer = await retriever(store, legs).retrieve(query("?"), profile, soon())

    assert (answer.reports[2].state, answer.reports[2].reason) == (state, reason)


async def test_signals_reorder_what_was_found_and_bring_nothing() -> None:
    store = await store_of(
        segment("a", "one", event_time=NOON - days(9)),
        segment("b", "two", event_time=NOON - days(1)),
        segment("c", "three"),
    )
    profile = replace(
        PLAIN,
        signals=(SignalSpec(name="recency", weight=0.6), SignalSpec(name="access", weight=0.5)),
        rank_style=RankStyle.DENSE,
    )
    access = RecordingAccess(shown={segment_id("b"): 3, segment_id("c"): 9})

    answer = await retriever(store, {"dense": FixedLeg("a b")}, access=access).retrieve(
        query("?"), profile, soon()
    )

    scores = {hit.item.id: hit.score for hit in answer.hits}
    assert hit_ids(answer) == ["b", "a"]
    assert scores["a"] == pytest.approx(1 / 61 + 0.6 / 62 + 0.5 / 62, abs=1e-12)
    assert scores["b"] == pytest.approx(1 / 62 + 0.6 / 61 + 0.5 / 61, abs=1e-12)


async def test_sorted_by_recency_the_latest_comes_first() -> None:
    store = await store_of(
        segment("a", "one", event_time=NOON - days(9)), segment("b", "two", event_time=NOON)
    )

    answer = await retriever(store, {"dense": FixedLeg("a b")}).retrieve(
        query("?"), replace(PLAIN, sort=Sort.RECENCY), soon()
    )

    assert hit_ids(answer) == ["b", "a"]


async def test_profile_without_diversity_sorts_by_recency() -> None:
    store = await store_of(
        segment("a", "one", event_time=NOON - days(2)), segment("b", "two", event_time=NOON)
    )
    annie = ProfileBook.load().changed("annie", {"sort": "recency", "diversity": None})

    answer = await retriever(store, {"dense": FixedLeg("a b")}).retrieve(query("?"), annie, soon())

    assert hit_ids(answer) == ["b", "a"]


async def test_importance_breaks_only_ties() -> None:
    store = await store_of(
        segment("a", "one", importance=0.1),
        segment("b", "two", importance=0.9),
        segment("c", "three", importance=1.0),
    )
    legs = {"lexical": FixedLeg("a"), "dense": FixedLeg("b c")}

    answer = await retriever(store, legs).retrieve(
        query("?"), replace(PLAIN, sort=Sort.IMPORTANCE), soon()
    )

    assert hit_ids(answer) == ["b", "a", "c"]


async def test_reserved_places_go_to_a_legs_best_from_the_end() -> None:
    store = await store_of(*(segment(name, f"text {name}") for name in "abcdexyz"))
    profile = replace(
        PLAIN,
        limit=3,
        legs=(LegSpec(name="lexical"), LegSpec(name="dense", weight=0.1, reserved=2)),
    )
    legs = {"lexical": FixedLeg("a b c d e"), "dense": FixedLeg("x y z")}

    answer = await retriever(store, legs).retrieve(query("?"), profile, soon())

    assert hit_ids(answer) == ["a", "x", "y"]
    assert [hit.ledger.reserved_by for hit in answer.hits] == ["", "dense", "dense"]


async def test_ranked_item_needs_no_reserved_place() -> None:
    store = await store_of(*(segment(name, f"text {name}") for name in "abc"))
    profile = replace(PLAIN, limit=2, legs=(LegSpec(name="lexical", reserved=1),))

    answer = await retriever(store, {"lexical": FixedLeg("a b c")}).retrieve(
        query("?"), profile, soon()
    )

    assert hit_ids(answer) == ["a", "b"]
    assert {hit.ledger.reserved_by for hit in answer.hits} == {""}


async def test_facts_count_as_fresh_where_the_profile_says_so() -> None:
    old = NOON - days(300)
    store = await store_of(
        segment("said", "one", event_time=old), fact("known", "a", "b", "c", valid_from=old)
    )
    items = [segment_id("said"), fact("known", "a", "b", "c").item]
    profile = replace(PLAIN, decay=Decay(facts_are_fresh=True))

    answer = await retriever(store, {"dense": FixedLeg(items)}).retrieve(
        query("?"), profile, soon()
    )

    multipliers = {
        hit.item.id: hit.ledger.decay.multiplier for hit in answer.hits if hit.ledger.decay
    }
    assert multipliers["known"] == 1.0
    assert multipliers["said"] < 0.01


async def test_unreranked_hits_follow_in_coarse_order() -> None:
    store = await store_of(*(segment(name, f"text {name}") for name in "abcd"))
    profile = replace(
        PLAIN, legs=(LegSpec(name="dense"),), fusion=FusionMethod.SCORE, rerank=Rerank(head=2)
    )
    improbable = FixedReranker({"text a": -9.0, "text b": -8.0})

    answer = await retriever(store, {"dense": FixedLeg("a b c d")}, reranker=improbable).retrieve(
        query("?"), profile, soon()
    )

    assert hit_ids(answer) == ["a", "b", "c", "d"]
    assert [hit.stage for hit in answer.hits] == [Stage.RERANKED] * 2 + [Stage.COARSE] * 2
    assert answer.hits[2].score > answer.hits[1].score


async def test_relevance_is_relative_to_an_unreranked_best() -> None:
    store = await store_of(segment("a", "one"), segment("b", "two"))
    profile = replace(
        PLAIN,
        legs=(LegSpec(name="dense"),),
        fusion=FusionMethod.SCORE,
        rerank=Rerank(head=1),
        diversity=Diversity(),
    )

    answer = await retriever(
        store, {"dense": FixedLeg("a b")}, reranker=FixedReranker({"one": -9.0})
    ).retrieve(query("?"), profile, soon())

    relevances = {
        hit.item.id: hit.ledger.diversity.relevance for hit in answer.hits if hit.ledger.diversity
    }
    assert relevances == {"a": pytest.approx(answer.hits[-1].score / 0.5), "b": 1.0}


async def test_hits_beyond_the_diversified_pool_keep_order() -> None:
    store = await store_of(*(segment(name, f"text {name}") for name in "abcd"))
    profile = replace(PLAIN, legs=(LegSpec(name="dense"),), limit=2, diversity=Diversity(pool=2))

    asked = steps(store, {"dense": FixedLeg("a b c d")})
    traced = await asked.run(query("?"), profile, soon(), thorough=True)

    assert [hit.item.id for hit in traced.ordering.uncut()] == ["a", "b", "c", "d"]


async def test_an_answer_longer_than_the_pool_is_diversified_as_a_whole() -> None:
    store = await store_of(*(segment(name, f"text {name}") for name in "abcd"))
    profile = replace(PLAIN, legs=(LegSpec(name="dense"),), limit=4, diversity=Diversity(pool=2))

    answer = await retriever(store, {"dense": FixedLeg("a b c d")}).retrieve(
        query("?"), profile, soon()
    )

    assert [hit.ledger.diversity is not None for hit in answer.hits] == [True] * 4


async def test_a_fact_that_is_not_fresh_ages_as_a_relationship() -> None:
    known = fact("known", "a", "b", "c", valid_from=NOON - days(300))
    profile = replace(PLAIN, decay=Decay())

    answer = await retriever(await store_of(known), {"dense": FixedLeg([known.item])}).retrieve(
        query("?"), profile, soon()
    )

    assert answer.hits[0].ledger.decay is not None
    assert answer.hits[0].ledger.decay.multiplier == 0.3


async def test_hits_of_equal_score_follow_their_times() -> None:
    names = ("lexical", "dense", "graph")
    legs = dict(zip(names, map(FixedLeg, ("a b c", "b c a", "c a b")), strict=True))
    profile = replace(PLAIN, legs=tuple(LegSpec(name=name) for name in names), limit=1)
    store = await store_of(
        *(segment(id_, id_, event_time=NOON - days(day)) for day, id_ in enumerate("abc"))
    )

    answer = await retriever(store, legs).retrieve(query("?"), profile, soon())

    assert hit_ids(answer) == ["c"]


async def test_newer_statement_is_a_hit_before_the_older() -> None:
    store = await store_of(
        segment("old", "The dentist is on Thursday."),
        segment("new", "The dentist moved me to Tuesday.", event_time=NOON + days(1)),
    )
    profile = replace(PLAIN, current_first=True)

    answer = await retriever(store, {"dense": FixedLeg("old new")}).retrieve(
        query("When is the dentist?"), profile, soon()
    )

    assert [(hit.item.id, hit.outdated_by) for hit in answer.hits] == [
        ("new", None),
        ("old", segment_id("new")),
    ]
    assert answer.hits[0].score < answer.hits[1].score


@pytest.mark.parametrize(("near", "order"), [("old new", ["new", "old"]), ("old", ["old", "new"])])
async def test_newer_statement_by_words_alone_follows(near: str, order: list[str]) -> None:
    store = await store_of(
        segment("old", "My boy starts school in August."),
        segment("new", "Sonia starts a new job in August.", event_time=NOON + days(1)),
    )
    legs = {"lexical": FixedLeg("old new"), "dense": FixedLeg(near)}
    profile = replace(PLAIN, current_first=True)

    answer = await retriever(store, legs).retrieve(
        query("When does my son start school?"), profile, soon()
    )

    assert hit_ids(answer) == order


async def test_rearranging_leaves_unreranked_hits_last() -> None:
    store = await store_of(*(segment(name, f"text {name}") for name in "abcd"))
    profile = replace(
        PLAIN,
        legs=(LegSpec(name="dense"),),
        fusion=FusionMethod.SCORE,
        rerank=Rerank(head=2),
        current_first=True,
    )
    improbable = FixedReranker({"text a": -9.0, "text b": -8.0})

    answer = await retriever(store, {"dense": FixedLeg("a b c d")}, reranker=improbable).retrieve(
        query("?"), profile, soon()
    )

    assert hit_ids(answer) == ["a", "b", "c", "d"]


async def test_another_sort_than_relevance_rearranges_nothing() -> None:
    store = await store_of(
        segment(
            "new", "The dentist moved me to Tuesday.", importance=0.1, event_time=NOON + days(1)
        ),
        segment("old", "The dentist is on Thursday."),
    )
    profile = replace(PLAIN, current_first=True, sort=Sort.IMPORTANCE)

    answer = await retriever(store, {"dense": FixedLeg("old new")}).retrieve(
        query("When is the dentist?"), profile, soon()
    )

    assert hit_ids(answer) == ["old", "new"]
