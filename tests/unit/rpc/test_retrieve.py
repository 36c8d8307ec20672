"""Queries as they are read, and answers as they are written, sent and read by the client."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, TypeVar

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from serving.config.profiles import ProfileBook
from serving.domain.briefing import BlockForm, BriefingLimits
from serving.domain.errors import InvalidRequestError
from serving.domain.items.records import Item, ItemId, Segment, fact_id, segment_id
from serving.domain.ranking.diversity import jaccard, words_of
from serving.domain.ranking.fusion import fuse
from serving.domain.ranking.ledger import FusionMethod, Ledger, LegTerm
from serving.domain.ranking.leg_options import CandidatePool
from serving.domain.ranking.priors import Decay, Importance, ImportanceStyle
from serving.domain.ranking.profile import Diversity, LegSpec, Profile, Rerank, Sort
from serving.domain.ranking.ranked_list import RankStyle
from serving.pipeline.retrieval.explain_absence import Absence, LegAbsence
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.name_correction import NameCorrection
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.ordering import Ordering
from serving.pipeline.retrieval.steps import Retrieval, Timings
from serving.rpc.check import Checker
from serving.rpc.items import from_reference
from serving.rpc.retrieval_service import (
    from_absence,
    from_comparison,
    to_compare_call,
    to_explain_absence_call,
)
from serving.rpc.retrieve import (
    MAX_SENT_QUERY_BYTES,
    Coercion,
    RetrieveCall,
    from_retrieval,
    to_retrieve_call,
    to_vector,
)
from tests.support.builders import NOON, days, fact, ids, query, ranked, segment
from tests.support.refusals import refused_for
from trivium import Absence as AbsenceRead
from trivium import DiversityTerm, ItemKind, ItemRef
from trivium import Hit as RetrievedHit
from trivium import Retrieval as RetrievalRead
from trivium.v1 import item_pb2
from trivium.v1 import retrieval_service_pb2 as pb
from trivium.v1.filter_pb2 import Exclusion, Filter, LabelFilter, TimeRange
from trivium.wire import responses

PROFILES = ProfileBook(
    {
        "default": {"description": "two legs", "legs": {"lexical": {}, "dense": {}}},
        "alone": {"description": "one leg", "legs": {"dense": {}}},
    }
)
YEAR_ZERO = Timestamp(seconds=-62135596801)
LATER = Timestamp(seconds=5)
WRONG_ZONES = ("Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "8", "+25:00", "\0")
Drawn = TypeVar("Drawn")
DENSE = Profile(name="any", legs=(LegSpec(name="dense"),))
TERM = LegTerm(leg="dense", rank=3, weight=0.5, leg_score=0.25, path="a way", facts=("f1",))
A_LEDGER = Ledger(rank_constant=60, leg_terms=(TERM,))
NOTHING_FOUND = Retrieval(
    profile="any",
    time_zone=UTC,
    hits=(),
    reports=(),
    rerank=None,
    timings=Timings(total_s=0, embedding_s=0, loading_s=0, reranking_s=0, ranking_s=0),
    candidates=0,
    folded=0,
    vanished=0,
    index_epoch=1,
)


def retrieve(**fields: object) -> pb.RetrieveRequest:
    given: dict[str, object] = {"tenant": "acme", "query": "where to?", **fields}
    return pb.RetrieveRequest(**given)  # type: ignore[arg-type]


def several(*tenants: str | pb.TenantWeight, **fields: object) -> pb.RetrieveRequest:
    """A question to several tenants."""
    named = [pb.TenantWeight(tenant=each) if isinstance(each, str) else each for each in tenants]
    return retrieve(**{"tenant": "", "tenants": named, **fields})


def override(
    count: int = 1, profile: str = "", leg: str = "dense", **fields: float
) -> pb.RetrieveRequest:
    """A question with changes of a leg."""
    changed = pb.LegOverride(leg=leg, **fields)  # type: ignore[arg-type]
    return retrieve(profile=profile, leg_overrides=[changed] * count)


def filtered(**fields: object) -> pb.RetrieveRequest:
    return retrieve(filter=Filter(**fields))  # type: ignore[arg-type]


def label(*values: str) -> list[LabelFilter]:
    return [LabelFilter(key="a", values=values)]


def changes(**fields: Any) -> Struct:
    struct = Struct()
    struct.update(fields)
    return struct


def changing(**fields: Any) -> pb.RetrieveRequest:
    return retrieve(profile_overrides=changes(**fields))


def asked(request: pb.RetrieveRequest | None = None, **fields: object) -> RetrieveCall:
    return to_retrieve_call(request or retrieve(**fields), PROFILES, NOON)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (retrieve(tenant=""), "tenant"),
        (retrieve(tenant=" "), "tenant"),
        (retrieve(tenant="x" * 257), "tenant"),
        (retrieve(tenant="a\x00b"), "tenant"),
        (several("a", tenant="b"), "tenant"),
        (several("a", seed_ids=["s"]), "seed_ids"),
        (several("a", "a"), "tenants[1].tenant"),
        (several("a", ""), "tenants[1].tenant"),
        (several(*map(str, range(9))), "tenants"),
        (several(pb.TenantWeight(tenant="a", weight=0)), "tenants[0].weight"),
        (several(pb.TenantWeight(tenant="a", weight=-1)), "tenants[0].weight"),
        (several(pb.TenantWeight(tenant="a", weight=math.nan)), "tenants[0].weight"),
        (several(pb.TenantWeight(tenant="a", weight=1001)), "tenants[0].weight"),
        (retrieve(query=""), "query"),
        (retrieve(query=" \n\t"), "query"),
        (retrieve(query="a\x00b"), "query"),
        (retrieve(query="a" * (MAX_SENT_QUERY_BYTES + 1)), "query"),
        (retrieve(limit=-1), "limit"),
        (retrieve(vector=[1.0] * 4001), "vector"),
        (retrieve(vector=[math.nan]), "vector"),
        (retrieve(vector=[0.0, 0.0]), "vector"),
        (retrieve(consistency_token="yesterday"), "consistency_token"),
        (retrieve(consistency_token="1~e~0~9223372036854775808"), "consistency_token"),
        (retrieve(consistency_token="1~e~99999999999999999999~"), "consistency_token"),
        (retrieve(consistency_token="1~e~0~" + "9" * 999), "consistency_token"),
        (retrieve(consistency_token="1~e~0~٣"), "consistency_token"),
        (retrieve(consistency_token="1~e~0~\x00"), "consistency_token"),
        (retrieve(consistency_token="1~e\x00~0~3"), "consistency_token"),
        (retrieve(profile="nobody"), "profile"),
        (changing(mood="x" * 70_000), "profile_overrides"),
        (changing(limit=0), "profile_overrides.limit"),
        (changing(mood="blue"), "profile_overrides.mood"),
        (changing(extends="alone"), "profile_overrides.extends"),
        (changing(legs={"dense": {"depth": 2.5}}), "profile_overrides.legs.dense.depth"),
        (changing(legs={"telepathy": {}}), "profile_overrides.legs.telepathy"),
        (changing(legs={"dense": {f"x{n}": 0 for n in range(33)}}), "profile_overrides"),
        (retrieve(seed_ids=["a", ""]), "seed_ids[1]"),
        (retrieve(seed_ids=["a"] * 33), "seed_ids"),
        (retrieve(profile="alone", required_legs=["lexical"]), "required_legs[0]"),
        (retrieve(profile="alone", required_legs=["dense", "dense"]), "required_legs"),
        (override(65), "leg_overrides"),
        (override(profile="alone", weight=0), "leg_overrides"),
        (override(weight=math.nan), "leg_overrides[0].weight"),
        (override(weight=math.inf), "leg_overrides[0].weight"),
        (override(weight=-1), "leg_overrides[0].weight"),
        (override(depth=0), "leg_overrides[0].depth"),
        (override(depth=1001), "leg_overrides[0].depth"),
        (override(leg="telepathy"), "leg_overrides[0].leg"),
        (override(2), "leg_overrides[1].leg"),
        (retrieve(as_of=YEAR_ZERO), "as_of"),
        (retrieve(known_at=YEAR_ZERO), "known_at"),
        *((retrieve(time_zone=name), "time_zone") for name in WRONG_ZONES),
        (retrieve(time_budget=Duration(seconds=0)), "time_budget"),
        (retrieve(time_budget=Duration(seconds=-1)), "time_budget"),
        (filtered(labels=label("b\x00")), "filter.labels[0].values[0]"),
        (filtered(labels=label("x" * 257)), "filter.labels[0].values[0]"),
        (filtered(labels=label()), "filter.labels[0].values"),
        (filtered(min_importance=1.5), "filter.min_importance"),
        (filtered(kinds=["x"] * 65), "filter.kinds"),
        (filtered(speakers=[""]), "filter.speakers[0]"),
        (filtered(none_of=Exclusion(ids=["x"] * 1001)), "filter.none_of.ids"),
        (filtered(none_of=Exclusion(kinds=["x"] * 65)), "filter.none_of.kinds"),
        (filtered(event_time=TimeRange(start=LATER, end=LATER)), "filter.event_time.end"),
        (retrieve(briefing=pb.BriefingOptions(max_chars=10)), "briefing.max_chars"),
    ],
    ids=str,
)
def test_a_malformed_question_names_its_field(request_: pb.RetrieveRequest, field: str) -> None:
    with refused_for(field):
        asked(request_)


def test_tenants_are_read_with_their_weights() -> None:
    query = asked(several("a", pb.TenantWeight(tenant="b", weight=0.5))).query

    assert [(each.tenant, each.weight) for each in query.tenants] == [("a", 1.0), ("b", 0.5)]
    assert query.scope.tenant == "a"


@pytest.mark.parametrize(
    ("name", "hour"),
    [("", 12), ("UTC", 12), ("Asia/Kolkata", 17), ("-08:00", 4), ("+05:30", 17), ("-03:30", 8)],
)
def test_time_zone_gives_the_local_time(name: str, hour: int) -> None:
    query = asked(time_zone=name).query

    assert query.local_time == NOON
    assert query.local_time.hour == hour


def test_query_may_be_empty_if_nothing_is_searched() -> None:
    request = retrieve(query="", profile="opening")

    assert to_retrieve_call(request, ProfileBook.load(), NOON).query.text == ""


def test_all_that_is_wrong_is_named_at_once() -> None:
    with refused_for("tenant", "limit", "query"):
        asked(tenant="", query="", limit=-1)


@pytest.mark.parametrize(("given", "used"), [(0, 10), (7, 7), (100, 100), (10_000, 100)])
def test_zero_limit_means_default_and_large_is_coerced(given: int, used: int) -> None:
    call = asked(limit=given)

    assert call.profile.limit == used
    assert [coercion.field for coercion in call.coercions] == (["limit"] if given > 100 else [])


def test_a_long_budget_is_coerced_and_reported() -> None:
    call = asked(time_budget=Duration(seconds=90))

    assert call.time_budget_s == 30
    assert call.coercions == (Coercion("time_budget", "90s", "30s"),)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("x" * 8192, "x" * 8192),
        ("x" * 8193, "x" * 8192),
        ("Zoë?" * 100_000, ("Zoë?" * 1639)[:6554]),
        ("x" * 8191 + "€", "x" * 8191),
    ],
)
def test_a_long_question_is_searched_by_its_beginning(given: str, used: str) -> None:
    call = asked(query=given)

    assert call.query.text == used
    size = len(given.encode())
    coerced = [Coercion("query", f"{size} bytes", "8192 bytes")] if given != used else []
    assert list(call.coercions) == coerced


def test_a_vector_may_stand_for_the_text() -> None:
    call = asked(query="", vector=[1.0, 0.0])

    assert call.query.vector == (1.0, 0.0)


@pytest.mark.parametrize("scale", [3e38, 1e-45, 1.0])
def test_query_vector_is_normalized_at_any_scale(scale: float) -> None:
    call = asked(vector=[scale, 0, -scale, 0])

    assert call.query.vector == pytest.approx((0.5**0.5, 0, -(0.5**0.5), 0))


class Unread:
    """Ten million numbers."""

    def __len__(self) -> int:
        return 10_000_000

    def __iter__(self) -> Iterator[float]:
        pytest.fail("they are read")


def test_ten_million_numbers_are_refused_unread() -> None:
    numbers: Any = Unread()
    check = Checker()

    assert to_vector(check, numbers) is None
    assert [violation.field for violation in check.violations] == ["vector"]


def test_a_label_may_be_asked_for_that_is_empty() -> None:
    call = asked(filtered(labels=label("")))

    assert call.query.scope.filter.labels == {"a": ("",)}


def test_an_override_changes_one_leg_and_leaves_the_others() -> None:
    call = asked(override(weight=0, depth=5))

    assert call.profile.legs == (LegSpec(name="lexical"), LegSpec(name="dense", weight=0, depth=5))


def test_call_can_override_any_field_of_profile() -> None:
    dense = {"reorders": True, "pool": {"recently_accessed": 5, "joined_by": ["lexical"]}}

    profile = asked(
        changing(
            sort="recency",
            fold_repeats=False,
            limit=7,
            decay={"half_life": "P7D"},
            legs={"dense": {**dense, "depth": 5}},
        )
    ).profile

    assert (profile.sort, profile.fold_repeats, profile.limit) == (Sort.RECENCY, False, 7)
    assert profile.decay is not None
    assert (profile.leg("dense").depth, profile.leg("dense").reorders) == (5, True)
    assert profile.leg("dense").pool == CandidatePool(recently_accessed=5, joined_by=("lexical",))
    assert profile.leg("lexical") == PROFILES["default"].leg("lexical")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_non_json_number_among_overrides_is_rejected(number: float) -> None:
    with pytest.raises(InvalidRequestError, match=r"overrides: has a number that is not finite$"):
        asked(changing(legs={"lexical": {"floor": number}}))


def test_seeds_and_required_legs_are_in_the_query() -> None:
    query = asked(seed_ids=["a", "b"], required_legs=["dense"]).query

    assert query.seeds == ("a", "b")
    assert query.required == {"dense"}


def call_of(profile: Profile) -> RetrieveCall:
    return RetrieveCall(
        query=query("?"),
        profile=profile,
        time_budget_s=1,
        explain=True,
        briefing=None,
        coercions=(Coercion("limit", "200", "100"),),
    )


def read(
    profile: Profile, hits: Sequence[Hit], briefing: BriefingLimits | None = None, **found: Any
) -> RetrievalRead:
    """The answer as the client has it."""
    call = replace(call_of(profile), briefing=briefing)
    retrieval = replace(NOTHING_FOUND, hits=tuple(hits), **found)
    sent = from_retrieval(call, retrieval).SerializeToString()
    return responses.read(RetrievalRead, pb.RetrieveResponse.FromString(sent))


def read_hit(item: Item, **fields: Any) -> RetrievedHit:
    """A hit as the client has it."""
    (hit,) = read(DENSE, [Hit(**{"item": item, "ledger": A_LEDGER, **fields})]).hits
    return hit


def test_all_that_was_changed_is_returned() -> None:
    corrected = (NameCorrection("Melony", "Melanie"),)

    changed = read(DENSE, [], name_corrections=corrected, unknown_seeds=("nobody",)).coercions

    assert [(each.field, each.given, each.used) for each in changed] == [
        ("limit", "200", "100"),
        ("query", "Melony", "Melanie"),
        ("seed_ids", "nobody", ""),
    ]


def test_a_hit_that_is_a_fact_is_read_as_one() -> None:
    hit = read_hit(fact("f1", "Nora", "owns", "a boat"))

    assert (hit.id, hit.text, hit.legs) == ("f1", "Nora owns a boat", ("dense",))


def test_marks_of_a_hit_cross_the_wire() -> None:
    reserved = replace(A_LEDGER, reserved_by="dense")

    hit = read_hit(segment("a"), ledger=reserved, outdated_by=segment_id("b"))

    assert hit.ledger is not None
    assert hit.ledger.reserved_by == "dense"
    assert hit.outdated_by == ItemRef(ItemKind.SEGMENT, "b")


@pytest.mark.parametrize(
    ("form", "days_shown", "line"),
    [
        (BlockForm.DATED, True, '- Sun 1 March 2026, Mia said: "We sailed to Goa."'),
        (BlockForm.DATED, False, '- Mia said: "We sailed to Goa."'),
        (BlockForm.PLAIN, True, '- Mia said: "We sailed to Goa."'),
    ],
)
def test_block_has_the_form_of_the_profile(form: BlockForm, days_shown: bool, line: str) -> None:
    hit = Hit(item=segment("s1", speaker="Mia"), ledger=A_LEDGER)

    answer = read(replace(DENSE, block=form), [hit], BriefingLimits(days=days_shown))

    assert line in answer.briefing.split("\n")


def test_block_marks_only_the_outdated_of_equal_ids() -> None:
    def of(tenant: str, text: str, **fields: Any) -> Hit:
        return Hit(item=segment("a", text), ledger=A_LEDGER, tenant=tenant, **fields)

    hits = [of("mine", "Old.", outdated_by=segment_id("b")), of("family", "Holds.")]

    shown = read(DENSE, hits, BriefingLimits(days=False))

    assert [hit.tenant for hit in shown.hits] == ["mine", "family"]
    assert "earlier: Old." in shown.briefing
    assert "earlier: Holds." not in shown.briefing


profiles = st.builds(
    Profile,
    name=st.just("any"),
    legs=st.tuples(
        st.builds(
            LegSpec, name=st.just("lexical"), weight=st.floats(0.1, 9), reserved=st.integers(0, 2)
        ),
        st.builds(
            LegSpec,
            name=st.just("dense"),
            weight=st.floats(0, 9),
            least_score=st.sampled_from([0.0, -1.0]),
        ),
    ),
    limit=st.integers(1, 6),
    fusion=st.sampled_from(FusionMethod),
    rank_constant=st.floats(0.5, 200),
    rank_style=st.sampled_from(RankStyle),
    importance=st.builds(Importance, style=st.sampled_from(ImportanceStyle)),
    decay=st.none() | st.just(Decay()) | st.just(Decay(floor=0.5, facts_are_fresh=True)),
    rerank=st.none() | st.builds(Rerank, head=st.integers(1, 4), weight=st.floats(0, 1)),
    fold_repeats=st.booleans(),
    diversity=st.none()
    | st.builds(
        Diversity, trade_off=st.floats(0, 1), pool=st.integers(1, 9), relative=st.booleans()
    ),
)
NAMES = "abcdef"
names = st.lists(st.sampled_from(NAMES), unique=True, max_size=len(NAMES))


def one_each(values: st.SearchStrategy[Drawn]) -> st.SearchStrategy[list[Drawn]]:
    """A value for each name."""
    return st.lists(values, min_size=len(NAMES), max_size=len(NAMES))


words = st.sampled_from(["we", "saw", "boats", "and", "gulls", "at", "noon"])
texts = one_each(st.lists(words, min_size=1, max_size=5).map(" ".join))


@given(
    profile=profiles,
    lexical=names,
    dense=names,
    texts=texts,
    importances=one_each(st.floats(0, 1)),
    ages=one_each(st.floats(0, 400)),
    logits=one_each(st.floats(-9, 9)),
)
def test_hit_on_the_wire_recomputes_its_score(
    profile: Profile,
    lexical: list[str],
    dense: list[str],
    texts: list[str],
    importances: list[float],
    ages: list[float],
    logits: list[float],
) -> None:
    rows: dict[ItemId, Item] = {
        segment_id(name): segment(name, text, importance=importance, event_time=NOON - days(age))
        for name, text, importance, age in zip(NAMES, texts, importances, ages, strict=True)
    }
    ordering = ordered(profile, {"lexical": lexical, "dense": dense}, rows, logits)

    hits = ordering.hits()
    answer = read(profile, hits)

    assert len(answer.hits) == len(hits) <= profile.limit
    whole_order = ordering.uncut()
    said = {hit.item.id: hit.item.text for hit in whole_order if isinstance(hit.item, Segment)}
    best = max((hit.score for hit in whole_order if hit.ledger.diversity), default=0)
    for sent, hit in zip(hits, answer.hits, strict=True):
        ledger = hit.ledger
        assert ledger is not None
        assert hit.score == sent.score
        assert ledger.recompute() == pytest.approx(hit.score, rel=1e-9, abs=1e-9)
        assert ledger.reserved_by == sent.ledger.reserved_by
        assert ledger.fused_score == sent.ledger.fused_score
        assert sum(term.term for term in ledger.leg_terms) == pytest.approx(ledger.fused_score)
        assert [term.leg for term in ledger.leg_terms] == [t.leg for t in sent.ledger.leg_terms]
        if ledger.importance is not None:
            assert ledger.importance.importance == importances[NAMES.index(hit.id)]
        if ledger.decay is not None:
            halvings = ledger.decay.age / ledger.decay.half_life
            assert ledger.decay.multiplier == pytest.approx(max(ledger.decay.floor, 2**-halvings))
        if ledger.diversity is not None and profile.diversity is not None:
            relative_to = best if profile.diversity.relative and best > 0 else 1
            assert ledger.diversity.relevance == pytest.approx(hit.score / relative_to)
            check_diversity(ledger.diversity, hit.text, said)


def check_diversity(term: DiversityTerm, text: str, said: Mapping[str, str]) -> None:
    """Works a term out again from the text, and that of the hit which it names."""
    closest = said[term.closest.id] if term.closest else ""
    assert term.max_similarity == jaccard(words_of(text), words_of(closest))
    assert term.value == pytest.approx(
        term.trade_off * term.relevance - (1 - term.trade_off) * term.max_similarity
    )


def ordered(
    profile: Profile,
    found: Mapping[str, Sequence[str]],
    rows: Mapping[ItemId, Item],
    logits: Sequence[float],
) -> Ordering:
    """What the legs found on its way to hits, reranked where the profile asks for it."""
    fused = fuse(
        [ranked(leg, " ".join(names)) for leg, names in found.items()],
        weights=profile.weights,
        method=profile.fusion,
        rank_constant=profile.rank_constant,
        rank_style=profile.rank_style,
        least_scores=profile.least_scores,
    )
    ordering = Ordering(profile, query("?"), fused)
    while batch := ordering.next_to_load():
        ordering.add_rows(batch, rows)
    if profile.rerank is not None:
        ordering.add_logits(
            {hit.item.item: of for hit, of in zip(ordering.head(), logits, strict=False)}
        )
    return ordering


# ---------------------------------------------------------------- two rankings


def compared_calls(**fields: Any) -> tuple[RetrieveCall, RetrieveCall]:
    return to_compare_call(pb.CompareRequest(**fields), PROFILES, NOON)


def test_a_comparison_asks_the_same_under_another_profile() -> None:
    changed = override(leg="lexical", weight=2)
    changed.limit = 3

    one, other = compared_calls(retrieve=changed, against="alone")

    assert one.query == other.query
    assert (one.profile.name, other.profile.name) == ("default", "alone")
    assert one.profile.leg("lexical").weight == 2
    assert other.profile.limit == 3


def test_a_profile_can_be_compared_with_a_change_of_itself() -> None:
    one, other = compared_calls(retrieve=retrieve(), against_overrides=changes(limit=4))

    assert (one.profile.limit, other.profile.limit) == (10, 4)


def compared(left: str, right: str) -> pb.CompareResponse:
    """The comparison of two answers with these segments."""
    call = call_of(DENSE)
    first, second = (
        replace(NOTHING_FOUND, hits=tuple(Hit(item=segment(each), ledger=A_LEDGER) for each in of))
        for of in (left, right)
    )
    return from_comparison((call, first), (call, second))


def test_item_has_its_rank_in_both_rankings() -> None:
    changes = compared("ab", "ca").rank_changes

    assert list(changes) == [
        pb.RankChange(item=from_reference(item), rank=rank, against_rank=against)
        for item, rank, against in zip(ids("a", "b", "c"), [1, 2, None], [2, None, 1], strict=True)
    ]


def test_overlap_is_the_shared_part_of_all_items() -> None:
    assert compared("ab", "bc").overlap == 1 / 3
    assert compared("ab", "ba").overlap == 1.0
    assert compared("", "").overlap == 1.0


# ---------------------------------------------------------------- what is missing


FOUND = LegAbsence(
    leg="dense", state=LegState.OK, rank=3, score=0.25, depth=20, reason="", loss=Loss.NONE
)
LOST = Absence(
    loss=Loss.DISPLACED,
    reason="the item is at rank 3",
    by=segment_id("other"),
    rank=3,
    hit=Hit(item=segment("a"), ledger=A_LEDGER, stage=Stage.COARSE),
    legs=(
        FOUND,
        replace(
            FOUND,
            leg="graph",
            state=LegState.TIMED_OUT,
            rank=None,
            score=None,
            depth=9,
            reason="late",
            loss=Loss.UNANSWERED,
        ),
    ),
)


def read_absence(absence: Absence) -> AbsenceRead:
    """The explanation as the client has it."""
    sent = from_absence(absence).SerializeToString()
    return responses.read(AbsenceRead, pb.ExplainAbsenceResponse.FromString(sent))


def test_the_item_that_is_missed_is_a_segment_or_a_fact() -> None:
    asking = pb.ExplainAbsenceRequest(retrieve=retrieve(), item=item_pb2.ItemRef(fact_id="f"))

    _, item = to_explain_absence_call(asking, PROFILES, NOON)

    assert item == fact_id("f")


@pytest.mark.parametrize(
    ("read", "request_", "field"),
    [
        (to_compare_call, pb.CompareRequest(retrieve=retrieve(query="")), "retrieve.query"),
        (to_compare_call, pb.CompareRequest(retrieve=retrieve(), against="nobody"), "against"),
        (
            to_compare_call,
            pb.CompareRequest(retrieve=retrieve(), against_overrides=changes(limit=-1)),
            "against_overrides.limit",
        ),
        (to_explain_absence_call, pb.ExplainAbsenceRequest(retrieve=retrieve()), "item"),
        (
            to_explain_absence_call,
            pb.ExplainAbsenceRequest(retrieve=retrieve(), item={"segment_id": " "}),
            "item.segment_id",
        ),
        (
            to_explain_absence_call,
            pb.ExplainAbsenceRequest(retrieve=retrieve(limit=-1), item={"segment_id": "a"}),
            "retrieve.limit",
        ),
    ],
)
def test_malformed_request_around_a_query_names_its_field(
    read: Callable[..., object], request_: Message, field: str
) -> None:
    with refused_for(field):
        read(request_, PROFILES, NOON)


def test_an_absence_crosses_the_wire_whole() -> None:
    found = read_absence(LOST)

    assert (found.loss.name, found.reason, found.rank) == ("DISPLACED", "the item is at rank 3", 3)
    assert found.by == ItemRef(ItemKind.SEGMENT, "other")
    assert found.hit is not None
    assert (found.hit.id, found.hit.rank, found.hit.score) == ("a", 3, 0.5 / 63)
    assert found.hit.ledger is not None
    (term,) = found.hit.ledger.leg_terms
    assert (term.path, term.fact_ids, term.leg_score) == ("a way", ("f1",), 0.25)
    assert [
        (each.leg, each.state.name, each.rank, each.score, each.depth, each.reason)
        for each in found.legs
    ] == [("dense", "OK", 3, 0.25, 20, ""), ("graph", "TIMED_OUT", None, None, 9, "late")]


@pytest.mark.parametrize("loss", Loss)
def test_every_loss_has_a_name_that_the_client_knows(loss: Loss) -> None:
    assert read_absence(Absence(loss=loss, reason="")).loss.name == loss.name


def test_item_without_rank_or_rival_is_reported_so() -> None:
    found = read_absence(Absence(loss=Loss.NOT_MATCHED, reason="no leg finds it"))
    folded = read_absence(Absence(loss=Loss.FOLDED, reason="", by=fact_id("f2")))

    assert (found.by, found.rank, found.hit, found.legs) == (None, None, None, ())
    assert folded.by == ItemRef(ItemKind.FACT, "f2")
