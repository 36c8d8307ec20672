from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from serving.config.profiles import ProfileBook
from serving.domain.errors import InvalidRequestError
from serving.domain.items.records import fact_id
from serving.domain.ranking.leg_options import CandidatePool
from serving.domain.ranking.profile import LegSpec, Sort
from serving.rpc import questions
from serving.rpc.check import Checker
from serving.rpc.questions import RetrieveCall
from tests.support.builders import NOON
from tests.support.refusals import refused_for
from trivium.v1.filter_pb2 import Exclusion, Filter, LabelFilter, TimeRange
from trivium.v1.item_pb2 import ItemRef
from trivium.v1.retrieval_service_pb2 import (
    BriefingOptions,
    CompareRequest,
    ExplainAbsenceRequest,
    LegOverride,
    RetrieveRequest,
)

PROFILES = ProfileBook(
    {
        "default": {"description": "two legs", "legs": {"lexical": {}, "dense": {}}},
        "alone": {"description": "one leg", "legs": {"dense": {}}},
    }
)
YEAR_ZERO = Timestamp(seconds=-62135596801)
LATER = Timestamp(seconds=5)
WRONG_ZONES = ("Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "8", "+25:00", "\0")


def retrieve(**fields: object) -> RetrieveRequest:
    given: dict[str, object] = {"tenant": "acme", "query": "where to?", **fields}
    return RetrieveRequest(**given)  # type: ignore[arg-type]


def override(
    count: int = 1, profile: str = "", leg: str = "dense", **fields: float
) -> RetrieveRequest:
    """A question with changes of a leg."""
    changed = LegOverride(leg=leg, **fields)  # type: ignore[arg-type]
    return retrieve(profile=profile, leg_overrides=[changed] * count)


def filtered(**fields: object) -> RetrieveRequest:
    return retrieve(filter=Filter(**fields))  # type: ignore[arg-type]


def label(*values: str) -> list[LabelFilter]:
    return [LabelFilter(key="a", values=values)]


def changes(**fields: Any) -> Struct:
    struct = Struct()
    struct.update(fields)
    return struct


def changing(**fields: Any) -> RetrieveRequest:
    return retrieve(profile_overrides=changes(**fields))


def asked(request: RetrieveRequest | None = None, **fields: object) -> RetrieveCall:
    return questions.to_retrieve_call(request or retrieve(**fields), PROFILES, NOON)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (retrieve(tenant=""), "tenant"),
        (retrieve(tenant=" "), "tenant"),
        (retrieve(tenant="x" * 257), "tenant"),
        (retrieve(tenant="a\x00b"), "tenant"),
        (retrieve(query=""), "query"),
        (retrieve(query=" \n\t"), "query"),
        (retrieve(query="a\x00b"), "query"),
        (retrieve(query="a" * (questions.MAX_SENT_QUERY_BYTES + 1)), "query"),
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
        (retrieve(briefing=BriefingOptions(max_chars=10)), "briefing.max_chars"),
    ],
    ids=str,
)
def test_a_malformed_question_names_its_field(request_: RetrieveRequest, field: str) -> None:
    with refused_for(field):
        asked(request_)


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

    assert questions.to_retrieve_call(request, ProfileBook.load(), NOON).query.text == ""


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
    assert call.coercions == (questions.Coercion("time_budget", "90s", "30s"),)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("x" * 8193, "x" * 8192),
        ("Zoë?" * 100_000, ("Zoë?" * 1639)[:6554]),
        ("x" * 8191 + "€", "x" * 8191),
    ],
)
def test_a_long_question_is_searched_by_its_beginning(given: str, used: str) -> None:
    call = asked(query=given)

    assert call.query.text == used
    size = len(given.encode())
    assert call.coercions == (questions.Coercion("query", f"{size} bytes", "8192 bytes"),)


def test_a_question_of_most_bytes_is_unchanged() -> None:
    call = asked(query="x" * 8192)

    assert (call.query.text, call.coercions) == ("x" * 8192, ())


def test_a_vector_may_stand_for_the_text() -> None:
    call = asked(query="", vector=[1.0, 0.0])

    assert call.query.vector == (1.0, 0.0)


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


def compare(**fields: object) -> CompareRequest:
    return CompareRequest(**fields)  # type: ignore[arg-type]


def test_a_comparison_asks_the_same_under_another_profile() -> None:
    changed = override(leg="lexical", weight=2)
    changed.limit = 3

    one, other = questions.to_compare_call(
        compare(retrieve=changed, against="alone"), PROFILES, NOON
    )

    assert one.query == other.query
    assert (one.profile.name, other.profile.name) == ("default", "alone")
    assert one.profile.leg("lexical").weight == 2
    assert other.profile.limit == 3


def test_a_profile_can_be_compared_with_a_change_of_itself() -> None:
    one, other = questions.to_compare_call(
        compare(retrieve=retrieve(), against_overrides=changes(limit=4)), PROFILES, NOON
    )

    assert (one.profile.limit, other.profile.limit) == (10, 4)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (compare(retrieve=retrieve(query="")), "retrieve.query"),
        (compare(retrieve=retrieve(), against="nobody"), "against"),
        (
            compare(retrieve=retrieve(), against_overrides=changes(limit=-1)),
            "against_overrides.limit",
        ),
    ],
)
def test_a_malformed_comparison_names_its_field(request_: CompareRequest, field: str) -> None:
    with refused_for(field):
        questions.to_compare_call(request_, PROFILES, NOON)


def explain(**fields: object) -> ExplainAbsenceRequest:
    return ExplainAbsenceRequest(**fields)  # type: ignore[arg-type]


def test_the_item_that_is_missed_is_a_segment_or_a_fact() -> None:
    _, item = questions.to_explain_absence_call(
        explain(retrieve=retrieve(), item=ItemRef(fact_id="f")), PROFILES, NOON
    )

    assert item == fact_id("f")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (explain(retrieve=retrieve()), "item"),
        (explain(retrieve=retrieve(), item=ItemRef(segment_id=" ")), "item.segment_id"),
        (explain(retrieve=retrieve(limit=-1), item=ItemRef(segment_id="a")), "retrieve.limit"),
    ],
)
def test_a_malformed_miss_names_its_field(request_: ExplainAbsenceRequest, field: str) -> None:
    with refused_for(field):
        questions.to_explain_absence_call(request_, PROFILES, NOON)


@pytest.mark.parametrize("scale", [3e38, 1e-45, 1.0])
def test_query_vector_is_normalized_at_any_scale(scale: float) -> None:
    call = asked(vector=[scale, 0, -scale, 0])

    assert call.query.vector == pytest.approx((0.5**0.5, 0, -(0.5**0.5), 0))


def test_a_label_may_be_asked_for_that_is_empty() -> None:
    call = asked(filtered(labels=label("")))

    assert call.query.scope.filter.labels == {"a": ("",)}


class Counted:
    """Numbers that fail the test once more are read than a vector may have."""

    def __init__(self) -> None:
        self.read = 0

    def __len__(self) -> int:
        return 10_000_000

    def __iter__(self) -> Iterator[float]:
        self.read += 1
        return iter([1.0])


def test_ten_million_numbers_are_refused_unread() -> None:
    numbers: Any = Counted()
    check = Checker()

    assert questions.to_vector(check, numbers) is None

    assert numbers.read == 0
    assert [violation.field for violation in check.violations] == ["vector"]
