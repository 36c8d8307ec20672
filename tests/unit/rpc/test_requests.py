from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from serving.domain.errors import InvalidRequestError
from serving.domain.profile import LegSpec, Profile
from serving.rpc import requests
from tests.builders import NOON
from trivium.v1 import (
    catalog_service_pb2,
    fact_pb2,
    filter_pb2,
    ingest_service_pb2,
    retrieval_service_pb2,
    segment_pb2,
)

PROFILES = {
    "default": Profile(name="default", legs=(LegSpec(name="lexical"), LegSpec(name="dense")))
}
YEAR_ZERO = Timestamp(seconds=-62135596801)


def retrieve(**fields: object) -> retrieval_service_pb2.RetrieveRequest:
    given: dict[str, object] = {"tenant": "acme", "query": "where to?", **fields}
    return retrieval_service_pb2.RetrieveRequest(**given)  # type: ignore[arg-type]


def override(**fields: object) -> list[retrieval_service_pb2.LegOverride]:
    return [retrieval_service_pb2.LegOverride(**fields)]  # type: ignore[arg-type]


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
        (retrieve(query="x" * 8193), "query"),
        (retrieve(limit=-1), "limit"),
        (retrieve(profile="nobody"), "profile"),
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
        (retrieve(time_budget=Duration(seconds=0)), "time_budget"),
        (retrieve(time_budget=Duration(seconds=-1)), "time_budget"),
        (retrieve(consistency_token="yesterday"), "consistency_token"),
        (retrieve(vector=[float("nan")]), "vector"),
        (retrieve(vector=[0.0, 0.0]), "vector"),
        (retrieve(filter=filter_pb2.Filter(min_importance=1.5)), "filter.min_importance"),
        (retrieve(filter=filter_pb2.Filter(kinds=["x"] * 65)), "filter.kinds"),
        (retrieve(filter=filter_pb2.Filter(speakers=[""])), "filter.speakers[0]"),
        (
            retrieve(filter=filter_pb2.Filter(labels=[filter_pb2.LabelFilter(key="a")])),
            "filter.labels[0].values",
        ),
        (
            retrieve(
                filter=filter_pb2.Filter(
                    event_time=filter_pb2.TimeRange(
                        **{"from": Timestamp(seconds=5), "to": Timestamp(seconds=5)}
                    )
                )
            ),
            "filter.event_time.to",
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
        requests.to_retrieve_call(request_, PROFILES, NOON)

    assert [violation.field for violation in refused.value.violations] == [field]


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        requests.to_retrieve_call(retrieve(tenant="", query="", limit=-1), PROFILES, NOON)

    named = [violation.field for violation in refused.value.violations]
    assert named == ["tenant", "query", "limit"]


@pytest.mark.parametrize(("given", "used"), [(0, 10), (7, 7), (100, 100), (10_000, 100)])
def test_a_limit_of_zero_is_the_profiles_own_and_a_large_one_is_coerced(
    given: int, used: int
) -> None:
    call = requests.to_retrieve_call(retrieve(limit=given), PROFILES, NOON)

    assert call.profile.limit == used
    assert [coercion.field for coercion in call.coercions] == (["limit"] if given > 100 else [])


def test_a_long_budget_is_coerced_and_reported() -> None:
    call = requests.to_retrieve_call(retrieve(time_budget=Duration(seconds=90)), PROFILES, NOON)

    assert call.time_budget_s == 30
    assert call.coercions == (requests.Coercion("time_budget", "90s", "30s"),)


def test_a_vector_may_stand_for_the_text() -> None:
    call = requests.to_retrieve_call(retrieve(query="", vector=[1.0, 0.0]), PROFILES, NOON)

    assert call.query.vector == (1.0, 0.0)


def test_an_override_changes_one_leg_and_leaves_the_others() -> None:
    call = requests.to_retrieve_call(
        retrieve(leg_overrides=override(leg="dense", weight=0, depth=5)), PROFILES, NOON
    )

    assert call.profile.legs == (LegSpec(name="lexical"), LegSpec(name="dense", weight=0, depth=5))


def segment_item(**fields: object) -> ingest_service_pb2.IngestItem:
    given: dict[str, object] = {"id": "s1", "text": "hello", **fields}
    return ingest_service_pb2.IngestItem(segment=segment_pb2.Segment(**given))  # type: ignore[arg-type]


def fact_item(**fields: object) -> ingest_service_pb2.IngestItem:
    given: dict[str, object] = {
        "id": "f1",
        "subject": "Mel",
        "relation": "lives in",
        "object": "Rome",
        **fields,
    }
    return ingest_service_pb2.IngestItem(fact=fact_pb2.Fact(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (ingest_service_pb2.IngestItem(), "items[0]"),
        (segment_item(id=""), "items[0].segment.id"),
        (segment_item(id="é" * 129), "items[0].segment.id"),
        (segment_item(id="a\x00"), "items[0].segment.id"),
        (segment_item(text="  "), "items[0].segment.text"),
        (segment_item(text="a\x00b"), "items[0].segment.text"),
        (segment_item(text="x" * 1_000_000), "items[0].segment.text"),
        (segment_item(importance=1.5), "items[0].segment.importance"),
        (segment_item(importance=float("nan")), "items[0].segment.importance"),
        (segment_item(event_time=YEAR_ZERO), "items[0].segment.event_time"),
        (segment_item(entities=[" "]), "items[0].segment.entities[0]"),
        (segment_item(labels={"": "x"}), "items[0].segment.labels['']"),
        (fact_item(subject=""), "items[0].fact.subject"),
        (fact_item(weight=0), "items[0].fact.weight"),
        (fact_item(weight=float("inf")), "items[0].fact.weight"),
        (
            fact_item(valid_from=Timestamp(seconds=9), valid_to=Timestamp(seconds=8)),
            "items[0].fact.valid_to",
        ),
        (fact_item(evidence=["x" * 257]), "items[0].fact.evidence[0]"),
    ],
)
def test_a_malformed_item_is_set_apart_with_its_field(
    item: ingest_service_pb2.IngestItem, field: str
) -> None:
    request = ingest_service_pb2.IngestRequest(tenant="acme", items=[item, segment_item(id="ok")])

    call = requests.to_ingest_call(request, NOON)

    assert [place for place, _ in call.items] == [1]
    assert [violation.field for violation in call.rejected[0][1]] == [field]


@pytest.mark.parametrize(
    "item",
    [
        fact_item(object="Mel"),
        segment_item(text="🙂 שלום مرحبا"),
        segment_item(id="x" * 256),
        segment_item(text="x" * 32768),
        segment_item(importance=0.0),
    ],
)
def test_odd_but_sound_items_are_taken(item: ingest_service_pb2.IngestItem) -> None:
    request = ingest_service_pb2.IngestRequest(tenant="acme", items=[item])

    assert not requests.to_ingest_call(request, NOON).rejected


@pytest.mark.parametrize("count", [0, 1001, 100_000])
def test_a_batch_of_no_or_too_many_items_is_refused(count: int) -> None:
    request = ingest_service_pb2.IngestRequest(tenant="acme", items=[segment_item()] * count)

    with pytest.raises(InvalidRequestError) as refused:
        requests.to_ingest_call(request, NOON)

    assert [violation.field for violation in refused.value.violations] == ["items"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ingest_service_pb2.ForgetRequest(tenant="acme"), "selector"),
        (ingest_service_pb2.ForgetRequest(tenant="acme", everything=False), "everything"),
        (ingest_service_pb2.ForgetRequest(tenant="acme", session=""), "session"),
        (ingest_service_pb2.ForgetRequest(everything=True), "tenant"),
        (
            ingest_service_pb2.ForgetRequest(tenant="acme", ids=ingest_service_pb2.ItemIds()),
            "ids",
        ),
    ],
)
def test_a_malformed_erasure_names_its_field(
    request_: ingest_service_pb2.ForgetRequest, field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        requests.to_selector(request_)

    assert [violation.field for violation in refused.value.violations] == [field]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (catalog_service_pb2.ListSegmentsRequest(tenant="acme", page_size=-1), "page_size"),
        (catalog_service_pb2.ListSegmentsRequest(tenant="acme", page_token="2"), "page_token"),
        (catalog_service_pb2.ListSegmentsRequest(), "tenant"),
    ],
)
def test_a_malformed_page_names_its_field(
    request_: catalog_service_pb2.ListSegmentsRequest, field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        requests.to_segment_page(request_)

    assert [violation.field for violation in refused.value.violations] == [field]
