from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from serving.config.profiles import ProfileBook
from serving.domain.errors import InvalidRequestError, Violation
from serving.domain.items.records import fact_id
from serving.domain.ranking.leg_options import CandidatePool
from serving.domain.ranking.profile import LegSpec, Sort
from serving.rpc import questions
from serving.rpc.check import Checker
from tests.support.builders import NOON
from trivium.v1 import filter_pb2, retrieval_service_pb2
from trivium.v1.item_pb2 import ItemRef

PROFILES = ProfileBook(
    {
        "default": {"description": "two legs", "legs": {"lexical": {}, "dense": {}}},
        "alone": {"description": "one leg", "legs": {"dense": {"depth_per_limit": 2}}},
        "reranking": {
            "description": "two stages",
            "legs": {"dense": {"depth_per_limit": 5}},
            "rerank": {},
        },
    }
)
YEAR_ZERO = Timestamp(seconds=-62135596801)
WRONG_ZONES = ("Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "8", "+25:00", "\0")


def retrieve(**fields: object) -> retrieval_service_pb2.RetrieveRequest:
    given: dict[str, object] = {"tenant": "acme", "query": "where to?", **fields}
    return retrieval_service_pb2.RetrieveRequest(**given)  # type: ignore[arg-type]


def override(**fields: object) -> list[retrieval_service_pb2.LegOverride]:
    return [retrieval_service_pb2.LegOverride(**fields)]  # type: ignore[arg-type]


def label(key: str, *values: str) -> filter_pb2.LabelFilter:
    return filter_pb2.LabelFilter(key=key, values=values)


def changes(**fields: Any) -> Struct:
    struct = Struct()
    struct.update(fields)
    return struct


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
        (retrieve(consistency_token="1~e~0~9223372036854775808"), "consistency_token"),
        (retrieve(consistency_token="1~e~99999999999999999999~"), "consistency_token"),
        (retrieve(consistency_token="1~e~0~" + "9" * 999), "consistency_token"),
        (retrieve(consistency_token="1~e~0~٣"), "consistency_token"),
        (retrieve(consistency_token="1~e~0~\x00"), "consistency_token"),
        (retrieve(consistency_token="1~e\x00~0~3"), "consistency_token"),
        (retrieve(profile_overrides=changes(mood="x" * 70_000)), "profile_overrides"),
        (
            retrieve(leg_overrides=override(leg="dense", weight=1) * 65),
            "leg_overrides",
        ),
        (
            retrieve(filter=filter_pb2.Filter(labels=[label("a", "b\x00")])),
            "filter.labels[0].values[0]",
        ),
        (
            retrieve(filter=filter_pb2.Filter(labels=[label("a", "x" * 257)])),
            "filter.labels[0].values[0]",
        ),
        (retrieve(profile="nobody"), "profile"),
        (retrieve(profile_overrides=changes(limit=0)), "profile_overrides.limit"),
        (retrieve(profile_overrides=changes(mood="blue")), "profile_overrides.mood"),
        (retrieve(profile_overrides=changes(extends="alone")), "profile_overrides.extends"),
        (
            retrieve(profile_overrides=changes(legs={"dense": {"depth": 2.5}})),
            "profile_overrides.legs.dense.depth",
        ),
        (
            retrieve(profile_overrides=changes(legs={"telepathy": {}})),
            "profile_overrides.legs.telepathy",
        ),
        (retrieve(profile="alone", leg_overrides=override(leg="dense", weight=0)), "leg_overrides"),
        (retrieve(seed_ids=["a", ""]), "seed_ids[1]"),
        (retrieve(seed_ids=["a"] * 33), "seed_ids"),
        (retrieve(profile="alone", required_legs=["lexical"]), "required_legs[0]"),
        (retrieve(profile="alone", required_legs=["dense", "dense"]), "required_legs"),
        (
            retrieve(leg_overrides=override(leg="dense", weight=float("nan"))),
            "leg_overrides[0].weight",
        ),
        (
            retrieve(leg_overrides=override(leg="dense", weight=float("inf"))),
            "leg_overrides[0].weight",
        ),
        (retrieve(leg_overrides=override(leg="dense", weight=-1)), "leg_overrides[0].weight"),
        (retrieve(leg_overrides=override(leg="dense", depth=0)), "leg_overrides[0].depth"),
        (retrieve(leg_overrides=override(leg="dense", depth=1001)), "leg_overrides[0].depth"),
        (retrieve(leg_overrides=override(leg="telepathy")), "leg_overrides[0].leg"),
        (retrieve(leg_overrides=override(leg="dense") * 2), "leg_overrides[1].leg"),
        (retrieve(as_of=YEAR_ZERO), "as_of"),
        (retrieve(known_at=YEAR_ZERO), "known_at"),
        *((retrieve(time_zone=name), "time_zone") for name in WRONG_ZONES),
        (retrieve(time_budget=Duration(seconds=0)), "time_budget"),
        (retrieve(time_budget=Duration(seconds=-1)), "time_budget"),
        (retrieve(consistency_token="yesterday"), "consistency_token"),
        (retrieve(vector=[float("nan")]), "vector"),
        (retrieve(vector=[0.0, 0.0]), "vector"),
        (retrieve(filter=filter_pb2.Filter(min_importance=1.5)), "filter.min_importance"),
        (retrieve(filter=filter_pb2.Filter(kinds=["x"] * 65)), "filter.kinds"),
        (retrieve(filter=filter_pb2.Filter(speakers=[""])), "filter.speakers[0]"),
        (
            retrieve(filter=filter_pb2.Filter(none_of=filter_pb2.Exclusion(ids=["x"] * 1001))),
            "filter.none_of.ids",
        ),
        (
            retrieve(filter=filter_pb2.Filter(none_of=filter_pb2.Exclusion(kinds=["x"] * 65))),
            "filter.none_of.kinds",
        ),
        (
            retrieve(filter=filter_pb2.Filter(labels=[filter_pb2.LabelFilter(key="a")])),
            "filter.labels[0].values",
        ),
        (
            retrieve(
                filter=filter_pb2.Filter(
                    event_time=filter_pb2.TimeRange(
                        start=Timestamp(seconds=5), end=Timestamp(seconds=5)
                    )
                )
            ),
            "filter.event_time.end",
        ),
        (
            retrieve(briefing=retrieval_service_pb2.BriefingOptions(max_chars=10)),
            "briefing.max_chars",
        ),
    ],
    ids=str,
)
def test_a_malformed_question_names_its_field(
    request_: retrieval_service_pb2.RetrieveRequest, field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        questions.to_retrieve_call(request_, PROFILES, NOON)

    assert [violation.field for violation in refused.value.violations] == [field]


@pytest.mark.parametrize(
    ("name", "hour"),
    [("", 12), ("UTC", 12), ("Asia/Kolkata", 17), ("-08:00", 4), ("+05:30", 17), ("-03:30", 8)],
)
def test_time_zone_gives_the_local_time(name: str, hour: int) -> None:
    query = questions.to_retrieve_call(retrieve(time_zone=name), PROFILES, NOON).query

    assert query.local_time == NOON
    assert query.local_time.hour == hour


def test_query_may_be_empty_if_nothing_is_searched() -> None:
    call = questions.to_retrieve_call(
        retrieve(query="", profile="opening"), ProfileBook.load(), NOON
    )

    assert call.query.text == ""


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        questions.to_retrieve_call(retrieve(tenant="", query="", limit=-1), PROFILES, NOON)

    named = [violation.field for violation in refused.value.violations]
    assert named == ["tenant", "limit", "query"]


@pytest.mark.parametrize(("given", "used"), [(0, 10), (7, 7), (100, 100), (10_000, 100)])
def test_zero_limit_means_default_and_large_is_coerced(given: int, used: int) -> None:
    call = questions.to_retrieve_call(retrieve(limit=given), PROFILES, NOON)

    assert call.profile.limit == used
    assert [coercion.field for coercion in call.coercions] == (["limit"] if given > 100 else [])


def test_a_long_budget_is_coerced_and_reported() -> None:
    call = questions.to_retrieve_call(retrieve(time_budget=Duration(seconds=90)), PROFILES, NOON)

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
    call = questions.to_retrieve_call(retrieve(query=given), PROFILES, NOON)

    assert call.query.text == used
    size = len(given.encode())
    assert call.coercions == (questions.Coercion("query", f"{size} bytes", "8192 bytes"),)


def test_a_question_of_most_bytes_is_unchanged() -> None:
    call = questions.to_retrieve_call(retrieve(query="x" * 8192), PROFILES, NOON)

    assert (call.query.text, call.coercions) == ("x" * 8192, ())


def test_a_vector_may_stand_for_the_text() -> None:
    call = questions.to_retrieve_call(retrieve(query="", vector=[1.0, 0.0]), PROFILES, NOON)

    assert call.query.vector == (1.0, 0.0)


def test_an_override_changes_one_leg_and_leaves_the_others() -> None:
    call = questions.to_retrieve_call(
        retrieve(leg_overrides=override(leg="dense", weight=0, depth=5)), PROFILES, NOON
    )

    assert call.profile.legs == (LegSpec(name="lexical"), LegSpec(name="dense", weight=0, depth=5))


def test_call_can_override_any_field_of_profile() -> None:
    changed = changes(sort="recency", decay={"half_life": "P7D"}, legs={"dense": {"depth": 5}})

    call = questions.to_retrieve_call(retrieve(profile_overrides=changed), PROFILES, NOON)

    assert call.profile.sort is Sort.RECENCY
    assert call.profile.decay is not None
    assert call.profile.leg("dense").depth == 5
    assert call.profile.leg("lexical") == PROFILES["default"].leg("lexical")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_non_json_number_among_overrides_is_rejected(number: float) -> None:
    changed = changes(legs={"lexical": {"floor": number}})

    with pytest.raises(InvalidRequestError) as refused:
        questions.to_retrieve_call(retrieve(profile_overrides=changed), PROFILES, NOON)

    assert refused.value.violations == (
        Violation("profile_overrides", "has a number that is not finite"),
    )


def test_every_kind_of_value_can_be_changed() -> None:
    changed = changes(
        sort="recency",
        fold_repeats=False,
        limit=7,
        legs={
            "dense": {"reorders": True, "pool": {"recently_accessed": 5, "joined_by": ["lexical"]}}
        },
    )

    profile = questions.to_retrieve_call(
        retrieve(profile_overrides=changed), PROFILES, NOON
    ).profile

    assert (profile.sort, profile.fold_repeats, profile.limit) == (Sort.RECENCY, False, 7)
    assert profile.leg("dense").reorders
    assert profile.leg("dense").pool == CandidatePool(recently_accessed=5, joined_by=("lexical",))


def test_seeds_are_part_of_the_question() -> None:
    call = questions.to_retrieve_call(retrieve(seed_ids=["a", "b"]), PROFILES, NOON)

    assert call.query.seeds == ("a", "b")


def test_required_legs_are_part_of_the_question() -> None:
    call = questions.to_retrieve_call(retrieve(required_legs=["dense"]), PROFILES, NOON)

    assert call.query.required == {"dense"}


def compare(**fields: object) -> retrieval_service_pb2.CompareRequest:
    return retrieval_service_pb2.CompareRequest(**fields)  # type: ignore[arg-type]


def test_a_comparison_asks_the_same_under_another_profile() -> None:
    asked = retrieve(limit=3, leg_overrides=override(leg="lexical", weight=2))

    one, other = questions.to_compare_call(compare(retrieve=asked, against="alone"), PROFILES, NOON)

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
def test_a_malformed_comparison_names_its_field(
    request_: retrieval_service_pb2.CompareRequest, field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        questions.to_compare_call(request_, PROFILES, NOON)

    assert [violation.field for violation in refused.value.violations] == [field]


def explain(**fields: object) -> retrieval_service_pb2.ExplainAbsenceRequest:
    return retrieval_service_pb2.ExplainAbsenceRequest(**fields)  # type: ignore[arg-type]


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
def test_a_malformed_miss_names_its_field(
    request_: retrieval_service_pb2.ExplainAbsenceRequest, field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        questions.to_explain_absence_call(request_, PROFILES, NOON)

    assert [violation.field for violation in refused.value.violations] == [field]


@pytest.mark.parametrize("scale", [3e38, 1e-45, 1.0])
def test_query_vector_is_normalized_at_any_scale(scale: float) -> None:
    call = questions.to_retrieve_call(retrieve(vector=[scale, 0, -scale, 0]), PROFILES, NOON)

    assert call.query.vector == pytest.approx((0.5**0.5, 0, -(0.5**0.5), 0))


def test_a_label_may_be_asked_for_that_is_empty() -> None:
    request = retrieve(filter=filter_pb2.Filter(labels=[label("a", "")]))

    call = questions.to_retrieve_call(request, PROFILES, NOON)

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
