from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from serving.config.profiles import ProfileBook
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError, OverloadedError, TooSlowError
from serving.domain.items.records import Item, Segment, segment_id
from serving.domain.items.validity import Closing
from serving.domain.questions.query import NO_FILTER, Filter, Scope, TimeRange
from serving.domain.ranking.ledger import AdjacentTerm, CurrencyReason, FusionMethod
from serving.domain.ranking.leg_options import CandidatePool
from serving.domain.ranking.priors import Decay
from serving.domain.ranking.profile import Diversity, LegSpec, Profile, Rerank, SignalSpec, Sort
from serving.domain.ranking.ranked_list import RankStyle
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs import DenseLeg
from serving.pipeline.retrieval.legs.leg import Leg, LegSkippedError
from serving.pipeline.retrieval.order.hit import Stage
from serving.pipeline.retrieval.steps import Retrieval
from serving.ports.reranking import Reranker
from serving.ports.vector_index import AdjacencyAnswer
from tests.fakes.meaning import (
    EngineIndex,
    FakeEmbedder,
    InMemoryIndex,
    fact_row,
    segment_row,
    unit,
)
from tests.fakes.pipeline import (
    BrokenLeg,
    BrokenReranker,
    FixedIndex,
    FixedLeg,
    FixedReranker,
    HangingReranker,
    RecordingAccess,
)
from tests.support.builders import A_DAY_LATER, NOON, days, fact, ids, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import (
    answered,
    hit_ids,
    some_space,
    soon,
    space_of,
    steps,
    store_of,
)

PLAIN = Profile(
    name="plain", legs=(LegSpec(name="lexical"), LegSpec(name="dense")), fold_repeats=False
)
DENSE = replace(PLAIN, legs=(LegSpec(name="dense"),))
POOLED = replace(
    PLAIN,
    legs=(
        LegSpec(name="lexical"),
        LegSpec(name="dense", pool=CandidatePool(recently_accessed=2, joined_by=("lexical",))),
    ),
)
SKIPPED = BrokenLeg(LegSkippedError("the weight of the leg is 0"))


def said(names: str) -> list[Segment]:
    return [segment(name, f"text {name}") for name in names]


async def ordered(
    found: str, profile: Profile, stored: Sequence[Item] = (), question: str = "?"
) -> list[str]:
    """The order of the hits when the leg of meaning finds these."""
    legs = {"dense": FixedLeg(found)}
    return hit_ids(await answered(stored or said(found), legs, profile, query(question)))


def said_since(start: float) -> Scope:
    return scope(filter_=Filter(event_time=TimeRange(NOON + days(start), A_DAY_LATER)))


@pytest.mark.parametrize(
    ("lookback", "asked", "searched"),
    [
        (days(7), scope(), TimeRange(NOON - days(6))),
        (timedelta.max, scope(), TimeRange()),
        (days(7), said_since(-1), TimeRange(NOON - days(1), A_DAY_LATER)),
        (days(7), said_since(-9), TimeRange(NOON - days(6), A_DAY_LATER)),
    ],
    ids=["a week", "before the year 1", "later filter", "earlier filter"],
)
async def test_leg_with_lookback_searches_only_that_time(
    lookback: timedelta, asked: Scope, searched: TimeRange
) -> None:
    legs = {"lexical": FixedLeg(), "dense": FixedLeg()}
    specs = (LegSpec(name="lexical", lookback=lookback), LegSpec(name="dense"))

    await answered([], legs, replace(PLAIN, legs=specs), query("?", scope=asked))

    lexical, dense = (leg.requests[0].query.scope for leg in legs.values())
    assert (lexical.filter.event_time, dense) == (searched, asked)


async def test_a_depth_per_limit_grows_with_the_answer() -> None:
    lexical = FixedLeg("a")
    profile = replace(PLAIN, legs=(LegSpec(name="lexical", depth_per_limit=4),), limit=6)

    await answered(said("a"), {"lexical": lexical}, profile)

    assert lexical.requests[0].depth == 2 * 24


async def test_pool_has_accessed_items_and_earlier_finds() -> None:
    index = FixedIndex()
    access = RecordingAccess(recent=ids("new", "newer", "beyond"))
    legs = {"lexical": FixedLeg("old"), "dense": DenseLeg(access)}
    space = VectorSpace.of(FakeEmbedder(), index)

    await answered([segment("old")], legs, POOLED, access=access, space=space)

    assert [each.only for each in index.wanted] == [set(ids("new", "newer", "old"))]


@pytest.mark.parametrize(
    ("words", "state", "reason"),
    [
        (FixedLeg("a"), LegState.OK, ""),
        (
            BrokenLeg(TimeoutError()),
            LegState.PARTIAL,
            "upstream leg failed: lexical: the budget ran out",
        ),
        (SKIPPED, LegState.OK, ""),
    ],
    ids=["found", "late", "skipped"],
)
async def test_pool_without_a_failed_leg_is_partial(
    words: Leg, state: LegState, reason: str
) -> None:
    legs = {"lexical": words, "dense": DenseLeg(RecordingAccess())}

    answer = await answered(said("a"), legs, POOLED)

    assert (answer.reports[1].state, answer.reports[1].reason) == (state, reason)


async def test_signals_reorder_candidates_and_add_none() -> None:
    stored = [
        segment("a", "one", event_time=NOON - days(9)),
        segment("b", "two", event_time=NOON - days(1)),
        segment("c", "three"),
    ]
    profile = replace(
        PLAIN,
        signals=(SignalSpec(name="recency", weight=0.6), SignalSpec(name="access", weight=0.5)),
        rank_style=RankStyle.DENSE,
    )
    access = RecordingAccess(shown={segment_id("b"): 3, segment_id("c"): 9})

    answer = await answered(stored, {"dense": FixedLeg("a b")}, profile, access=access)

    scores = {hit.item.id: hit.score for hit in answer.hits}
    assert hit_ids(answer) == ["b", "a"]
    assert scores["a"] == pytest.approx(1 / 61 + 0.6 / 62 + 0.5 / 62, abs=1e-12)
    assert scores["b"] == pytest.approx(1 / 62 + 0.6 / 61 + 0.5 / 61, abs=1e-12)


@pytest.mark.parametrize(
    "profile",
    [
        replace(PLAIN, sort=Sort.RECENCY),
        ProfileBook.load().changed("annie", {"sort": "recency", "diversity": None}),
    ],
    ids=["plain", "without diversity"],
)
async def test_sorted_by_recency_the_latest_comes_first(profile: Profile) -> None:
    stored = [segment("a", "one", event_time=NOON - days(9)), segment("b", "two")]

    assert await ordered("a b", profile, stored) == ["b", "a"]


async def test_importance_breaks_only_ties() -> None:
    stored = [
        segment(id_, id_, importance=importance)
        for id_, importance in (("a", 0.1), ("b", 0.9), ("c", 1.0))
    ]
    legs = {"lexical": FixedLeg("a"), "dense": FixedLeg("b c")}

    answer = await answered(stored, legs, replace(PLAIN, sort=Sort.IMPORTANCE))

    assert hit_ids(answer) == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("dense", "found", "reserved_by"),
    [("x y z", ["a", "x", "y"], ["", "dense", "dense"]), ("a b", ["a", "b", "c"], ["", "", ""])],
    ids=["from the end", "none if ranked"],
)
async def test_reserved_places_go_to_a_legs_best(
    dense: str, found: list[str], reserved_by: list[str]
) -> None:
    specs = (LegSpec(name="lexical"), LegSpec(name="dense", weight=0.1, reserved=2))
    legs = {"lexical": FixedLeg("a b c d e"), "dense": FixedLeg(dense)}

    answer = await answered(said("abcdexyz"), legs, replace(PLAIN, limit=3, legs=specs))

    assert hit_ids(answer) == found
    assert [hit.ledger.reserved_by for hit in answer.hits] == reserved_by


@pytest.mark.parametrize(("fresh", "multiplier"), [(True, 1.0), (False, 0.3)])
async def test_facts_are_fresh_or_age_as_relationships(fresh: bool, multiplier: float) -> None:
    old = NOON - days(300)
    known = fact("known", "a", "b", "c", valid_from=old)
    stored: list[Item] = [segment("said", "one", event_time=old), known]
    profile = replace(PLAIN, decay=Decay(facts_are_fresh=fresh))

    answer = await answered(stored, {"dense": FixedLeg([segment_id("said"), known.item])}, profile)

    multipliers = {
        hit.item.id: hit.ledger.decay.multiplier for hit in answer.hits if hit.ledger.decay
    }
    assert multipliers["known"] == multiplier
    assert multipliers["said"] < 0.01


@pytest.mark.parametrize("current_first", [False, True], ids=["plain", "rearranged"])
async def test_unreranked_hits_follow_in_coarse_order(current_first: bool) -> None:
    profile = replace(
        DENSE, fusion=FusionMethod.SCORE, rerank=Rerank(head=2), current_first=current_first
    )
    improbable = FixedReranker({"text a": -9.0, "text b": -8.0})

    answer = await answered(
        said("abcd"), {"dense": FixedLeg("a b c d")}, profile, reranker=improbable
    )

    assert hit_ids(answer) == ["a", "b", "c", "d"]
    assert [hit.stage for hit in answer.hits] == [Stage.RERANKED] * 2 + [Stage.COARSE] * 2
    assert answer.hits[2].score > answer.hits[1].score


async def test_relevance_is_relative_to_an_unreranked_best() -> None:
    profile = replace(
        DENSE, fusion=FusionMethod.SCORE, rerank=Rerank(head=1), diversity=Diversity()
    )
    improbable = FixedReranker({"text a": -9.0})

    answer = await answered(said("ab"), {"dense": FixedLeg("a b")}, profile, reranker=improbable)

    relevances = {
        hit.item.id: hit.ledger.diversity.relevance for hit in answer.hits if hit.ledger.diversity
    }
    assert relevances == {"a": pytest.approx(answer.hits[-1].score / 0.5), "b": 1.0}


@pytest.mark.parametrize("limit", [2, 4])
async def test_pool_or_longer_answer_is_diversified(limit: int) -> None:
    profile = replace(DENSE, limit=limit, diversity=Diversity(pool=2))

    asked = steps(await store_of(*said("abcd")), {"dense": FixedLeg("a b c d")})
    hits = (await asked.run(query("?"), profile, soon(), thorough=True)).ordering.uncut()

    assert [hit.item.id for hit in hits] == ["a", "b", "c", "d"]
    diversified = [hit.ledger.diversity is not None for hit in hits]
    assert diversified == [True] * limit + [False] * (4 - limit)


async def test_hits_of_equal_score_follow_their_times() -> None:
    found = {"lexical": "a b c", "dense": "b c a", "graph": "c a b"}
    profile = replace(PLAIN, legs=tuple(LegSpec(name=name) for name in found), limit=1)
    stored = [segment(id_, id_, event_time=NOON - days(day)) for day, id_ in enumerate("abc")]

    answer = await answered(
        stored, {name: FixedLeg(names) for name, names in found.items()}, profile
    )

    assert hit_ids(answer) == ["c"]


DENTIST = [
    segment("old", "The dentist is on Thursday."),
    segment("new", "The dentist moved me to Tuesday.", importance=0.1, event_time=NOON + days(1)),
]


async def test_newer_statement_is_a_hit_before_the_older() -> None:
    answer = await answered(
        DENTIST,
        {"dense": FixedLeg("old new")},
        replace(PLAIN, current_first=True),
        query("When is the dentist?"),
    )

    assert hit_ids(answer) == ["new", "old"]
    newer, older = (hit.ledger.currency for hit in answer.hits)
    assert [(term.reason, term.by) for term in newer] == [
        (CurrencyReason.TAKES_PLACE, segment_id("old"))
    ]
    assert older == ()
    assert answer.hits[0].score > answer.hits[1].score


async def test_evidence_of_closed_fact_follows_the_present_one() -> None:
    moved_at = NOON + days(1)
    york = fact("f", "Nora", "lives in", "York", evidence=("york",), valid_from=NOON)
    leeds = fact("g", "Nora", "lives in", "Leeds", evidence=("leeds",), valid_from=moved_at)
    turns = [segment("york", "Nora lives in York."), segment("leeds", "Leeds is home to her.")]
    engine = InMemoryIndex()
    closing = Closing("g", moved_at, NOON)
    engine.apply(
        [
            *(segment_row(turn, unit(1)) for turn in turns),
            fact_row(replace(york, closings=(closing,)), unit(1)),
            fact_row(leeds, unit(1)),
        ],
        [],
    )

    def asked(as_of: datetime) -> Awaitable[Retrieval]:
        return answered(
            turns,
            {"dense": FixedLeg("york leeds")},
            replace(PLAIN, current_first=True),
            query("Where does Nora live now?", scope=scope(as_of=as_of)),
            space=VectorSpace.here(FakeEmbedder(), EngineIndex(engine)),
        )

    after, before = await asked(moved_at + days(1)), await asked(moved_at - timedelta(hours=1))

    assert hit_ids(after) == ["leeds", "york"]
    assert after.hits[1].outdated_by == segment_id("leeds")
    assert hit_ids(before) == ["york", "leeds"]
    assert before.hits[0].outdated_by is None


async def test_another_sort_than_relevance_rearranges_nothing() -> None:
    profile = replace(PLAIN, current_first=True, sort=Sort.IMPORTANCE)

    assert await ordered("old new", profile, DENTIST, "When is the dentist?") == ["old", "new"]


# ---------------------------------------------------------------- adjacent turns


PROFILE = Profile(
    name="plain", legs=(LegSpec(name="dense", depth=40),), rank_constant=2, adjacent=0.1
)
LIFTED = replace(PROFILE, adjacent=0.2)
OTHERS = [segment(f"x{number}", f"Text {number}.") for number in range(30)]


def call(texts: Mapping[str, str]) -> list[Segment]:
    return [
        segment(id_, text, session="call", event_time=NOON + timedelta(minutes=minute))
        for minute, (id_, text) in enumerate(texts.items())
    ]


async def ask(
    turns: Sequence[Segment], found: str, profile: Profile = PROFILE, filter_: Filter = NO_FILTER
) -> Retrieval:
    legs: dict[str, Leg] = {"dense": FixedLeg(found)}
    asked = query("?", scope=scope(as_of=NOON + timedelta(days=1), filter_=filter_))
    return await answered(turns, legs, profile, asked, space=space_of(*turns))


async def test_turns_adjacent_to_a_hit_get_a_share() -> None:
    turns = call({"a": "We ate.", "b": "Then we sailed.", "c": "To Goa.", "d": "And back."})

    answer = await ask([*turns, *OTHERS], "b x0 x1 x2 x3 c x4", LIFTED)

    b, *_, c = (hit for hit in answer.hits if hit.item.id in "bc")
    assert hit_ids(answer) == ["b", "x0", "x1", "c", "x2", "x3", "x4"]
    assert c.ledger.adjacent == (AdjacentTerm(0.2, 1 / 3, b.item.item),)
    assert c.score == pytest.approx(1 / 8 + 0.2 / 3)


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ({"a": "We ate.", "b": "Then we sailed."}, "a x0 x1 x2 b x3"),
        ({"a": "Where did you go?", "b": "To Goa.", "c": "Really? I see."}, "b x0 x1 x2 x3 a c"),
    ],
    ids=["first five", "questions"],
)
async def test_first_hits_and_questions_take_no_share(texts: Mapping[str, str], found: str) -> None:
    answer = await ask([*call(texts), *OTHERS], found, LIFTED)

    assert hit_ids(answer) == found.split()
    assert {hit.ledger.adjacent for hit in answer.hits} == {()}


async def test_brief_answer_is_before_the_question_it_follows() -> None:
    question, answer = call({"q": "Tea or coffee?", "a": "Tea."})
    turns = [replace(question, speaker="Bot"), replace(answer, speaker="Mia"), *OTHERS]
    profile = replace(PROFILE, adjacent=0.01, current_first=True)

    answers = await ask(turns, "q x0 x1 x2 x3 x4 a", profile)

    assert hit_ids(answers)[:3] == ["x0", "x1", "a"]


async def test_only_the_first_ten_hits_give() -> None:
    turns = call({str(number): f"Turn {number}." for number in range(30)})
    found = " ".join(str(number) for number in (*range(0, 30, 2), *range(1, 30, 2)))

    answer = await ask(turns, found, replace(PROFILE, limit=30))

    givers = {term.by.id for hit in answer.hits for term in hit.ledger.adjacent}
    assert givers == {str(number) for number in range(0, 20, 2)}


async def test_candidate_far_down_is_lifted_into_the_answer() -> None:
    turns = call({"a": "We ate.", "b": "Then we sailed."})
    found = " ".join(["a", *(each.id for each in OTHERS), "b"])

    answer = await ask([*turns, *OTHERS], found, replace(PROFILE, adjacent=0.4))

    assert hit_ids(answer)[:5] == ["a", "x0", "x1", "x2", "b"]


class LostIndex(FixedIndex):
    async def adjacent(self, *_: object) -> AdjacencyAnswer:
        raise DependencyError("index", "the replica cannot be reached")


async def test_order_waits_for_no_write() -> None:
    index, legs = FixedIndex(), {"dense": FixedLeg("a")}
    space = replace(some_space(), whole_index=index)
    asked = query("?", token=ConsistencyToken.of("1", [5]))

    await answered([segment("a")], legs, PROFILE, asked, space=space)

    assert [each.token for each in index.adjacent_for] == [None]


async def test_order_stands_where_no_turn_is_known() -> None:
    turns = call({"a": "We ate.", "b": "Then we sailed."})
    legs: dict[str, Leg] = {"dense": FixedLeg("b")}

    for space in (some_space(), replace(some_space(), whole_index=LostIndex())):
        assert hit_ids(await answered(turns, legs, PROFILE, space=space)) == ["b"]


# ---------------------------------------------------------------- reranking


TWO_STAGE = Profile(
    name="two_stage",
    legs=(LegSpec(name="dense", depth=100),),
    fusion=FusionMethod.SCORE,
    rerank=Rerank(head=3, weight=0.7),
    fold_repeats=False,
)
LOGITS = {"one": -2.0, "two": 0.5, "three": 3.0, "four": 9.0}


SAID = [segment(name, text) for name, text in zip("abcd", LOGITS, strict=True)]


async def reranked(
    reranker: Reranker | None,
    *,
    profile: Profile = TWO_STAGE,
    stored: Sequence[Segment] = SAID,
    deadline: Deadline | None = None,
) -> Retrieval:
    """What all of these segments become by this reranker, which are found in their order."""
    legs = {"dense": FixedLeg([each.item for each in stored])}
    return await answered(stored, legs, profile, reranker=reranker, deadline=deadline)


@pytest.mark.parametrize(
    ("fusion", "coarse"),
    [(FusionMethod.SCORE, 1 / 3), (FusionMethod.RECIPROCAL_RANK, 61 / 63)],
    ids=["cosine as it is", "reciprocal ranks as a share of the best"],
)
async def test_reranked_head_precedes_the_coarse_rest(fusion: FusionMethod, coarse: float) -> None:
    reranker = FixedReranker(LOGITS)

    answer = await reranked(reranker, profile=replace(TWO_STAGE, fusion=fusion))

    assert hit_ids(answer) == ["c", "b", "a", "d"]
    assert [hit.stage for hit in answer.hits] == [*[Stage.RERANKED] * 3, Stage.COARSE]
    assert len(reranker.asked) == 3
    best = 0.3 * coarse + 0.7 / (1 + math.exp(-3.0))
    assert answer.hits[0].score == pytest.approx(best, abs=1e-12)
    assert answer.hits[3].score == (1 / 4 if fusion is FusionMethod.SCORE else 1 / 64)


async def test_sensitive_hit_is_not_sent_to_reranker() -> None:
    reranker = FixedReranker(LOGITS)
    secret = segment("secret", "one", sensitive=True)

    answer = await reranked(reranker, stored=[secret, *SAID[1:]])

    assert all("one" not in text for text in reranker.asked)
    assert {hit.item.id: hit.stage for hit in answer.hits}["secret"] is Stage.COARSE


FALLBACK, COARSE = Stage.COARSE_FALLBACK, Stage.COARSE


@pytest.mark.parametrize(
    ("reranker", "stage", "reason"),
    [
        (None, FALLBACK, "the service has no reranker"),
        (BrokenReranker(NotReadyError("reranker", "no weights")), FALLBACK, "reranker: no weights"),
        (BrokenReranker(OverloadedError("the reranker")), FALLBACK, "the reranker is full"),
        (BrokenReranker(RuntimeError("secret")), FALLBACK, "internal error"),
        (BrokenReranker(TimeoutError()), FALLBACK, "the budget ran out"),
        (HangingReranker(), FALLBACK, "the budget ran out"),
        (
            BrokenReranker(TooSlowError(0.025, 0.012)),
            *(COARSE, "the work would take about 25 ms, and 12 ms are left"),
        ),
    ],
)
async def test_without_reranking_the_coarse_order_stands_and_says_why(
    reranker: Reranker | None, stage: Stage, reason: str
) -> None:
    answer = await reranked(reranker, deadline=Deadline.after(0.5))

    assert hit_ids(answer) == ["a", "b", "c", "d"]
    assert {hit.stage for hit in answer.hits} == {stage}
    assert answer.rerank is not None
    assert answer.rerank.stage is stage
    assert answer.rerank.reason.startswith(reason)


async def test_without_a_hit_nothing_was_reranked() -> None:
    answer = await reranked(FixedReranker(LOGITS), stored=[])

    assert answer.rerank is not None
    assert (answer.rerank.stage, answer.rerank.reason) == (COARSE, "no hit may be reranked")


async def test_a_profile_that_does_not_rerank_labels_nothing() -> None:
    reranker = FixedReranker(LOGITS)

    answer = await reranked(reranker, profile=replace(TWO_STAGE, rerank=None))

    assert {hit.stage for hit in answer.hits} == {None}
    assert not reranker.asked
    assert answer.rerank is None
