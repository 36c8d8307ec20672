from __future__ import annotations

import math
from datetime import timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from serving.domain.items.records import segment_id, time_of
from serving.ports.embedding import EmbeddingModel
from serving.rpc.ingest import IngestCall, to_ingest_call
from tests.support.builders import NOON, days
from tests.support.refusals import refused_for
from trivium.v1 import fact_pb2, segment_pb2
from trivium.v1.ingest_service_pb2 import IngestItem, IngestRequest

MODEL = EmbeddingModel("model", 2)
YEAR_ZERO = Timestamp(seconds=-62135596801)


def segment_item(**fields: object) -> IngestItem:
    given: dict[str, object] = {"id": "s1", "text": "hello", **fields}
    return IngestItem(segment=segment_pb2.Segment(**given))  # type: ignore[arg-type]


def fact_item(**fields: object) -> IngestItem:
    given = {"id": "f1", "subject": "Mel", "relation": "lives in", "object": "Rome", **fields}
    return IngestItem(fact=fact_pb2.Fact(**given))  # type: ignore[arg-type]


def ingested(*items: IngestItem, model: EmbeddingModel | None = None) -> IngestCall:
    return to_ingest_call(IngestRequest(tenant="acme", items=items), NOON, model)


def test_items_without_times_keep_their_order() -> None:
    items = ingested(segment_item(id="a"), segment_item(id="b"), fact_item(id="c")).batch.items

    times = [time_of(item) for item in items]
    assert times == sorted(set(times))
    assert times[-1] == NOON


@pytest.mark.parametrize(
    ("ahead", "stored"),
    [
        (timedelta(seconds=-1), timedelta(seconds=-1)),
        (timedelta(seconds=2), timedelta(0)),
        (timedelta(minutes=2), timedelta(0)),
        (timedelta(minutes=3), timedelta(minutes=3)),
    ],
)
def test_time_shortly_ahead_is_now(ahead: timedelta, stored: timedelta) -> None:
    said = Timestamp()
    said.FromDatetime(NOON + ahead)

    (item,) = ingested(segment_item(event_time=said)).batch.items

    assert time_of(item) == NOON + stored


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (IngestItem(), "items[0]"),
        (segment_item(id="é" * 129), "items[0].segment.id"),
        (segment_item(id="a\x00"), "items[0].segment.id"),
        (segment_item(text="  "), "items[0].segment.text"),
        (segment_item(text="a\x00b"), "items[0].segment.text"),
        (segment_item(text="x" * 1_000_000), "items[0].segment.text"),
        (segment_item(importance=1.5), "items[0].segment.importance"),
        (segment_item(importance=math.nan), "items[0].segment.importance"),
        (segment_item(event_time=YEAR_ZERO), "items[0].segment.event_time"),
        (segment_item(created_at=YEAR_ZERO), "items[0].segment.created_at"),
        (segment_item(expires_at=NOON), "items[0].segment.expires_at"),
        (fact_item(expires_at=NOON), "items[0].fact.expires_at"),
        (segment_item(entities=[" "]), "items[0].segment.entities[0]"),
        (segment_item(labels={"": "x"}), "items[0].segment.labels['']"),
        (fact_item(subject=""), "items[0].fact.subject"),
        (fact_item(weight=0), "items[0].fact.weight"),
        (fact_item(weight=math.inf), "items[0].fact.weight"),
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
def test_a_malformed_item_is_set_apart_with_its_field(item: IngestItem, field: str) -> None:
    call = ingested(item, segment_item(id="ok"))

    assert call.places == [1]
    assert [violation.field for violation in call.rejected[0][1]] == [field]


def test_a_segment_was_not_stored_first_in_the_future() -> None:
    times = [NOON - days(1), NOON + days(1), None]

    call = ingested(*(segment_item(id=str(n), created_at=time) for n, time in enumerate(times)))

    assert [item.created_at for item in call.batch.items] == [NOON - days(1), NOON, None]


@pytest.mark.parametrize(
    "item",
    [
        fact_item(object="Mel"),
        segment_item(text="🙂 שלום مرحبا"),
        segment_item(id="x" * 256),
        segment_item(text="x" * 32768),
        segment_item(importance=0.0),
        segment_item(expires_at=NOON + timedelta(seconds=1)),
    ],
)
def test_odd_but_sound_items_are_taken(item: IngestItem) -> None:
    assert not ingested(item).rejected


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
    call = ingested(item, segment_item(id="ok"), model=MODEL)

    assert call.places == [1]
    (violation,) = call.rejected[0][1]
    assert violation.field == f"items[0].segment.embedding{field}"
    assert violation.description == reason


def test_vector_of_the_model_is_accepted_despite_rounding() -> None:
    call = ingested(embedded(0.6, 0.8004), model=MODEL)

    assert call.batch.given is not None
    assert call.batch.given.vectors[segment_id("s1")].tolist() == pytest.approx([0.6, 0.8004])


def test_repeated_segment_takes_only_its_last_vector() -> None:
    call = ingested(embedded(1, 0), segment_item(), fact_item(id="s1"), model=MODEL)

    assert call.batch.given is not None
    assert not call.batch.given.vectors


@pytest.mark.parametrize("count", [0, 1001, 100_000])
def test_empty_or_oversized_batch_is_rejected(count: int) -> None:
    with refused_for("items"):
        ingested(*[segment_item()] * count)


def ids_of(*items: IngestItem, key: str = "") -> list[str]:
    request = IngestRequest(tenant="acme", items=items, idempotency_key=key)
    return [item.id for item in to_ingest_call(request, NOON).batch.items]


def dated(**fields: object) -> IngestItem:
    return segment_item(event_time=Timestamp(seconds=1_700_000_000), **fields)


def test_given_ids_are_kept() -> None:
    assert ids_of(segment_item(id="mine"), fact_item(id="own"), key="k") == ["mine", "own"]


@pytest.mark.parametrize("item", [segment_item(id=""), fact_item(id=""), dated(id="")])
def test_calls_of_one_key_make_the_same_ids(item: IngestItem) -> None:
    first, second = ids_of(item, item, key="k")

    assert first != second
    assert ids_of(item, item, key="k") == [first, second]
    assert not {first, second} & {*ids_of(item, item, key="another")}


def test_same_content_and_time_make_the_same_id() -> None:
    labels = {"a": "1", "b": "2"}
    item = dated(id="", labels=labels)
    same = dated(id="", labels=dict(reversed(labels.items())))

    assert len({*ids_of(item, same), *ids_of(item)}) == 1
    others = [
        dated(id="", text="hello!"),
        dated(id="", speaker="Mel"),
        segment_item(id="", event_time=Timestamp(seconds=1_700_000_001)),
    ]
    assert len({*ids_of(item, *others)}) == 4


def test_undated_turns_said_twice_are_two() -> None:
    assert len({*ids_of(segment_item(id=""), segment_item(id="")), *ids_of(fact_item(id=""))}) == 3


def test_version_is_required_of_its_item_alone() -> None:
    versioned = IngestItem(segment=segment_item(id="a").segment, if_version=3)

    call = ingested(versioned, fact_item(id="a"), segment_item(id="b"))

    assert call.batch.versions == {segment_id("a"): 3}


def test_repeated_item_requires_only_its_last_version() -> None:
    versioned = IngestItem(segment=segment_item(id="a").segment, if_version=3)

    assert ingested(versioned, segment_item(id="a")).batch.versions == {}


def test_version_below_one_rejects_its_item() -> None:
    versioned = IngestItem(segment=segment_item(id="a").segment, if_version=0)

    [(_, violations)] = ingested(versioned, segment_item(id="b")).rejected.values()
    assert violations == [("items[0].if_version", "must be at least 1, is 0")]


def test_too_long_key_is_rejected() -> None:
    request = IngestRequest(tenant="acme", items=[segment_item()], idempotency_key="k" * 257)

    with refused_for("idempotency_key"):
        to_ingest_call(request, NOON)
