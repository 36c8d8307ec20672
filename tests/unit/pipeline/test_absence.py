from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.domain.ledger import FusionMethod
from serving.domain.priors import Decay
from serving.domain.profile import Diversity, LegSpec, Profile, Rerank
from serving.domain.query import NO_FILTER, Filter, TimeRange
from serving.domain.records import Item, ItemId, TenantName, fact_id, segment_id
from serving.pipeline.absence import Absence, AbsenceExplainer, Loss
from serving.pipeline.legs import Leg, LegSkippedError
from serving.ports import GraphChanges, GraphSegment
from tests.builders import NOON, TENANT, days, fact, ids, query, scope, segment
from tests.fake_graph import InMemoryGraph
from tests.fake_store import InMemoryStore
from tests.fakes import BrokenLeg, FixedLeg, FixedReranker
from tests.unit.pipeline.retrieving import retriever, soon, spaces, store_of

PLAIN = Profile(
    name="plain",
    legs=(LegSpec(name="lexical", depth=2), LegSpec(name="dense", depth=2)),
    limit=2,
    fold_from=None,
)


async def explained(
    store: InMemoryStore,
    legs: Mapping[str, Leg],
    item: str | ItemId,
    profile: Profile = PLAIN,
    *,
    logits: Mapping[str, float] | None = None,
    filter_: Filter = NO_FILTER,
) -> Absence:
    reranker = FixedReranker(logits) if logits else None
    explainer = AbsenceExplainer(
        retriever(store, legs, reranker=reranker), store, spaces(), InMemoryGraph()
    )
    return await explainer.explain(
        query("?", scope=scope(filter_=filter_)),
        profile,
        segment_id(item) if isinstance(item, str) else item,
        soon(),
    )


def texts(names: str = "abcdef") -> list[Item]:
    words = ["one", "two", "three", "four", "five", "six"]
    return [segment(name, word) for name, word in zip(names, words, strict=False)]


async def test_what_is_in_the_answer_was_not_lost() -> None:
    absence = await explained(await store_of(*texts()), {"lexical": FixedLeg("a b")}, "b")

    assert (absence.loss, absence.rank) == (Loss.NONE, 2)
    assert absence.hit is not None


async def test_what_is_not_stored_or_anothers_is_not_found() -> None:
    store = await store_of(*texts())
    await store.write(TenantName("other"), [segment("theirs")])

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


async def test_what_was_said_after_the_requests_clock_is_hidden_by_it() -> None:
    store = await store_of(segment("later", event_time=NOON + days(9)))

    absence = await explained(store, {"lexical": FixedLeg("later")}, "later")

    assert absence.loss is Loss.FILTERED
    assert absence.reason.startswith("as_of: it was said later")


async def test_a_fact_is_hidden_by_its_time_or_by_what_it_rests_on() -> None:
    store = await store_of(
        segment("s", speaker="Tom"),
        fact("over", "a", "b", "c", valid_to=NOON),
        fact("toms", "a", "b", "c", evidence=("s",), closes=("closed",)),
        fact("closed", "a", "b", "c"),
    )
    legs = {"facts": FixedLeg()}
    profile = replace(PLAIN, legs=(LegSpec(name="facts"),))

    over = await explained(store, legs, fact_id("over"), profile)
    closed = await explained(store, legs, fact_id("closed"), profile)
    mels = await explained(store, legs, fact_id("toms"), profile, filter_=Filter(speakers=("mel",)))

    assert over.reason == "as_of: the fact does not hold then, or is retracted"
    assert closed.reason == "as_of: the fact does not hold then, it was closed by toms"
    assert mels.reason == "filter.speakers: it does not pass"


async def test_below_a_legs_depth_its_rank_and_score_there_are_told() -> None:
    absence = await explained(
        await store_of(*texts()), {"lexical": FixedLeg("a b c"), "dense": FixedLeg("a")}, "c"
    )

    assert absence.loss is Loss.BELOW_DEPTH
    assert absence.reason == "lexical: its rank 3 is below the depth 2"
    lexical, dense = absence.legs
    assert (lexical.rank, lexical.score, lexical.depth) == (3, 1 / 3, 2)
    assert (dense.rank, dense.reason) == (None, "not among its best 1000")


class FlooredLeg(FixedLeg):
    """Finds one item, unless a floor is asked for."""

    async def find(self, request):  # type: ignore[no-untyped-def]
        finding = await super().find(request)
        floor = request.spec.floor
        kept = [one for one in finding.candidates if floor is None or one.score >= floor]
        return replace(finding, candidates=kept)


async def test_below_a_legs_floor_the_score_is_told() -> None:
    profile = replace(PLAIN, legs=(LegSpec(name="dense", floor=0.9),))

    absence = await explained(await store_of(*texts()), {"dense": FlooredLeg("a b")}, "b", profile)

    assert absence.loss is Loss.BELOW_DEPTH
    assert absence.reason == "dense: its score 0.5 is below the floor 0.9"


async def test_what_no_leg_finds_is_not_matched_or_not_projected_yet() -> None:
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
        "dense": BrokenLeg(LegSkippedError("its weight is 0")),
    }

    absence = await explained(await store_of(*texts()), legs, "b")

    assert [leg.reason for leg in absence.legs] == ["not among its best 1000", "its weight is 0"]


async def test_a_near_duplicate_that_stands_for_it_is_named() -> None:
    store = await store_of(segment("a", "we fly to Goa"), segment("b", "We fly to Goa!"))

    absence = await explained(
        store, {"lexical": FixedLeg("a b")}, "b", replace(PLAIN, fold_from=0.9)
    )

    assert (absence.loss, absence.by) == (Loss.FOLDED, segment_id("a"))


async def test_below_the_last_place_its_place_is_told() -> None:
    absence = await explained(
        await store_of(*texts()),
        {"lexical": FixedLeg("a b"), "dense": FixedLeg("a c")},
        "c",
        replace(PLAIN, limit=2),
    )

    assert (absence.loss, absence.rank) == (Loss.CUT, 3)
    assert absence.reason == "its place is 3, and the answer has 2"


async def test_age_that_cost_it_its_place_is_told() -> None:
    store = await store_of(segment("old", "one", event_time=NOON - days(300)), *texts("bc"))

    absence = await explained(
        store,
        {"lexical": FixedLeg("old b c")},
        "old",
        replace(PLAIN, legs=(LegSpec(name="lexical"),), decay=Decay()),
    )

    assert (absence.loss, absence.rank) == (Loss.DECAYED, 3)
    assert absence.reason.endswith("its age takes it from place 1")


async def test_who_displaced_it_for_diversity_is_told() -> None:
    store = await store_of(
        segment("a", "we fly to Goa in March"),
        segment("b", "we fly to Goa in April"),
        segment("c", "the cat is ill"),
    )
    profile = replace(PLAIN, legs=(LegSpec(name="dense"),), diversity=Diversity())

    absence = await explained(store, {"dense": FixedLeg("a b c")}, "b", profile)

    assert (absence.loss, absence.by) == (Loss.DISPLACED, segment_id("a"))
    assert absence.reason.endswith("before diversification it was 2")


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
        ("a", Loss.RERANKED_DOWN, "before reranking it was 1"),
        ("d", Loss.BELOW_HEAD, "it was not among the hits that are reranked"),
    ],
)
async def test_reranking_that_cost_it_its_place_is_told(name: str, loss: Loss, said: str) -> None:
    absence = await explained(
        await store_of(*texts("abcd")),
        {"dense": FixedLeg("a b c d")},
        name,
        RERANKED,
        logits=LOGITS,
    )

    assert absence.loss is loss
    assert absence.reason.endswith(said)


async def test_to_look_deeper_asks_the_legs_alone_and_reranks_nothing_again() -> None:
    store = await store_of(*texts("abcd"))
    reranker = FixedReranker(LOGITS)
    asked = retriever(store, {"dense": FixedLeg("a b c d")}, reranker=reranker)
    explainer = AbsenceExplainer(asked, store, spaces(), InMemoryGraph())

    await explainer.explain(query("?"), RERANKED, segment_id("d"), soon())

    assert len(reranker.asked) == 3


names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    lexical=names,
    dense=names,
    limit=st.integers(1, 4),
    depth=st.integers(1, 4),
    diversity=st.none() | st.just(Diversity()),
    decay=st.none() | st.just(Decay()),
)
async def test_for_every_item_it_says_what_an_exhaustive_run_shows(
    lexical: Sequence[str],
    dense: Sequence[str],
    limit: int,
    depth: int,
    diversity: Diversity | None,
    decay: Decay | None,
) -> None:
    store = await store_of(
        *(
            segment(name, f"we saw {word} today", event_time=NOON - days(place * 40))
            for place, (name, word) in enumerate(
                zip("abcdef", [*LOGITS, "five", "six"], strict=True)
            )
        )
    )
    legs = {"lexical": FixedLeg(" ".join(lexical)), "dense": FixedLeg(" ".join(dense))}
    profile = replace(
        PLAIN,
        legs=(LegSpec(name="lexical", depth=depth), LegSpec(name="dense", depth=depth)),
        limit=limit,
        diversity=diversity,
        decay=decay,
    )
    ask = retriever(store, legs)
    answer = await ask.retrieve(query("?"), profile, soon())
    endless = await ask.retrieve(query("?"), replace(profile, limit=6), soon())
    shown = [hit.item.item for hit in answer.hits]
    pool = [*lexical[:depth], *dense[:depth]]

    for item in ids(*"abcdef"):
        absence = await explained(store, legs, item, profile)
        assert (absence.loss is Loss.NONE) == (item in shown)
        assert (absence.rank is not None) == (item.id in pool)
        if item in shown:
            assert absence.rank == shown.index(item) + 1
        elif item.id in pool and diversity is None:
            assert absence.rank == [hit.item.item for hit in endless.hits].index(item) + 1
        for leg, found in zip(absence.legs, (lexical, dense), strict=True):
            assert leg.rank == (found.index(item.id) + 1 if item.id in found else None)


async def test_what_the_graph_has_not_got_yet_is_told_and_what_it_has_is_not() -> None:
    store = await store_of(*texts())
    graph = InMemoryGraph()
    profile = replace(PLAIN, legs=(LegSpec(name="graph"),))
    explainer = AbsenceExplainer(retriever(store, {"graph": FixedLeg()}), store, spaces(), graph)

    before = await explainer.explain(query("?"), profile, segment_id("a"), soon())
    there = [GraphSegment(tenant=TENANT, segment=segment("a", "one"))]
    await graph.apply(GraphChanges(segments=there))
    after = await explainer.explain(query("?"), profile, segment_id("a"), soon())

    assert (before.loss, before.reason) == (Loss.NOT_PROJECTED, "not in the graph yet")
    assert after.loss is Loss.NOT_MATCHED
