from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from serving.domain.errors import InvalidRequestError
from serving.domain.items.records import segment_id
from serving.ports.embedding import EmbeddingModel
from serving.rpc import requests
from tests.support.builders import NOON, days
from trivium.v1 import catalog_service_pb2, fact_pb2, ingest_service_pb2, segment_pb2
from trivium.v1.filter_pb2 import Exclusion, Filter, LabelFilter, TimeRange
from trivium.v1.ingest_service_pb2 import IngestItem

MODEL = EmbeddingModel("model", 2)
YEAR_ZERO = Timestamp(seconds=-62135596801)


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
        (segment_item(created_at=YEAR_ZERO), "items[0].segment.created_at"),
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
        (fact_item(closes=["x" * 257]), "items[0].fact.closes[0]"),
        (fact_item(closes=[f"f{n}" for n in range(2, 67)]), "items[0].fact.closes"),
        (fact_item(closes=["f2", "f1"]), "items[0].fact.closes[1]"),
    ],
)
def test_a_malformed_item_is_set_apart_with_its_field(
    item: ingest_service_pb2.IngestItem, field: str
) -> None:
    request = ingest_service_pb2.IngestRequest(tenant="acme", items=[item, segment_item(id="ok")])

    call = requests.to_ingest_call(request, NOON)

    assert call.places == [1]
    assert [violation.field for violation in call.rejected[0][1]] == [field]


def test_a_segment_was_not_stored_first_in_the_future() -> None:
    times = [NOON - days(1), NOON + days(1), None]
    items = [segment_item(id=str(place), created_at=time) for place, time in enumerate(times)]
    request = ingest_service_pb2.IngestRequest(tenant="acme", items=items)

    call = requests.to_ingest_call(request, NOON)

    assert [item.created_at for item in call.batch.items] == [NOON - days(1), NOON, None]


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


def embedded(*values: float, model: str = MODEL.fingerprint, **fields: object) -> IngestItem:
    embedding = segment_pb2.Embedding(model_fingerprint=model, values=values)
    return segment_item(embedding=embedding, **fields)


@pytest.mark.parametrize(
    ("item", "field", "reason"),
    [
        (embedded(1, 0, sensitive=True), "", "must not be set: a sensitive segment has no vector"),
        (
            embedded(1, 0, model="other"),
            ".model_fingerprint",
            "must be that of the service's model, 'model'",
        ),
        (embedded(1), ".values", "must have the model's 2 dimensions, has 1"),
        (embedded(), ".values", "must have the model's 2 dimensions, has 0"),
        (embedded(*[1.0] * 100_000), ".values", "must have the model's 2 dimensions, has 100000"),
        (embedded(1, 1), ".values", "must be finite and of length 1, has length 1.41421"),
        (embedded(0, 0), ".values", "must be finite and of length 1, has length 0"),
        (embedded(math.nan, 0), ".values", "must be finite and of length 1, has length nan"),
        (embedded(-math.inf, 0), ".values", "must be finite and of length 1, has length inf"),
        (embedded(3e38, 3e38), ".values", "must be finite and of length 1, has length 4.24264e+38"),
    ],
)
def test_unfit_vector_rejects_only_its_item(item: IngestItem, field: str, reason: str) -> None:
    request = ingest_service_pb2.IngestRequest(tenant="acme", items=[item, segment_item(id="ok")])

    call = requests.to_ingest_call(request, NOON, MODEL)

    assert call.places == [1]
    (violation,) = call.rejected[0][1]
    assert violation.field == f"items[0].segment.embedding{field}"
    assert violation.description == reason


def test_vector_of_the_model_is_accepted_despite_rounding() -> None:
    request = ingest_service_pb2.IngestRequest(tenant="acme", items=[embedded(0.6, 0.8004)])

    call = requests.to_ingest_call(request, NOON, MODEL)

    assert call.batch.given is not None
    assert call.batch.given.vectors[segment_id("s1")].tolist() == pytest.approx([0.6, 0.8004])


def test_repeated_segment_takes_only_its_last_vector() -> None:
    request = ingest_service_pb2.IngestRequest(
        tenant="acme", items=[embedded(1, 0), segment_item(), fact_item(id="s1")]
    )

    call = requests.to_ingest_call(request, NOON, MODEL)

    assert call.batch.given is not None
    assert not call.batch.given.vectors


@pytest.mark.parametrize("count", [0, 1001, 100_000])
def test_empty_or_oversized_batch_is_rejected(count: int) -> None:
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
    ("filter_", "field"),
    [
        (Filter(), ""),
        (Filter(min_importance=0), ""),
        (Filter(none_of=Exclusion(sessions=["now"])), ""),
        (Filter(created_at=TimeRange()), ".created_at"),
        (Filter(kinds=["note"], event_time=TimeRange()), ".event_time"),
        (Filter(event_time=TimeRange(start=Timestamp())), ".event_time.start"),
        (Filter(created_at=TimeRange(end=Timestamp())), ".created_at.end"),
        (Filter(kinds=["note"], updated_at=TimeRange(start=Timestamp())), ".updated_at.start"),
        (
            Filter(event_time=TimeRange(start=Timestamp(), end=Timestamp(seconds=86_400))),
            ".event_time.start",
        ),
        (Filter(labels=[LabelFilter(key="project")]), ".labels[0].values"),
        (Filter(labels=[LabelFilter(values=["goa"])]), ".labels[0].key"),
    ],
)
def test_erasure_by_unrestricted_filter_is_rejected(filter_: Filter, field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        requests.to_selector(ingest_service_pb2.ForgetRequest(tenant="acme", filter=filter_))

    assert [violation.field for violation in refused.value.violations] == [f"filter{field}"]


def test_erasure_by_label_and_time_requires_both() -> None:
    start = Timestamp(seconds=86_400)
    filter_ = Filter(
        labels=[LabelFilter(key="project", values=["goa"])], event_time=TimeRange(start=start)
    )

    _, selector = requests.to_selector(
        ingest_service_pb2.ForgetRequest(tenant="acme", filter=filter_)
    )

    assert selector.filter is not None
    assert selector.filter.labels == {"project": ("goa",)}
    assert selector.filter.event_time.start == datetime(1970, 1, 2, tzinfo=UTC)


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
        requests.to_list_segments_call(request_)

    assert [violation.field for violation in refused.value.violations] == [field]


@pytest.mark.parametrize("token", ["after:a\x00", "after:" + "x" * 257, "before:a"])
def test_a_page_token_that_nobody_was_given_is_rejected(token: str) -> None:
    request = catalog_service_pb2.ListSegmentsRequest(tenant="acme", page_token=token)

    with pytest.raises(InvalidRequestError) as error:
        requests.to_list_segments_call(request)

    assert [violation.field for violation in error.value.violations] == ["page_token"]
