"""Items that are written, changed and erased: what is read of a request."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import ErrorInfo
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.items.period import Period
from serving.domain.items.records import MAX_LABELS, segment_id, time_of
from serving.pipeline.writes.ingest import Ingestor
from serving.pipeline.writes.patch import Patch, Patcher
from serving.ports.embedding import EmbeddingModel
from serving.ports.memory_store import Selector
from serving.rpc.ingest_service import IngestCall, to_ingest_call, to_patch_call, to_selector
from serving.rpc.items import duration, from_segment, timestamp
from tests.fakes.store import InMemoryStore
from tests.support.builders import NOON, TENANT, batch_of, days, fact, segment
from tests.support.refusals import refused_for
from tests.unit.rpc.calling import Call, service_over
from trivium import Segment
from trivium.v1 import fact_pb2, segment_pb2
from trivium.v1 import ingest_service_pb2 as pb
from trivium.v1.filter_pb2 import Exclusion, Filter, LabelFilter, NumberRange, TimeRange
from trivium.v1.item_pb2 import ItemRef
from trivium.wire.responses import read

MODEL = EmbeddingModel("model", 2)
YEAR_ZERO = Timestamp(seconds=-62135596801)


def segment_item(**fields: object) -> pb.IngestItem:
    given: dict[str, object] = {"id": "s1", "text": "hello", **fields}
    return pb.IngestItem(segment=segment_pb2.Segment(**given))  # type: ignore[arg-type]


def test_client_reads_the_times_of_a_segment() -> None:
    times = [(NOON, NOON + days(1)), (NOON + days(3), NOON + days(5))]
    said = segment("a", mentions=tuple(Period(*each) for each in times))

    heard = read(Segment, from_segment(said))

    assert [(each.start, each.end) for each in heard.mentions] == times


def fact_item(**fields: object) -> pb.IngestItem:
    given = {"id": "f1", "subject": "Mel", "relation": "lives in", "object": "Rome", **fields}
    return pb.IngestItem(fact=fact_pb2.Fact(**given))  # type: ignore[arg-type]


def ingested(*items: pb.IngestItem, model: EmbeddingModel | None = None) -> IngestCall:
    return to_ingest_call(pb.IngestRequest(tenant="acme", items=items), NOON, model)


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
        (pb.IngestItem(), "items[0]"),
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
        (pb.IngestItem(segment=segment_item().segment, if_version=0), "items[0].if_version"),
    ],
)
def test_a_malformed_item_is_set_apart_with_its_field(item: pb.IngestItem, field: str) -> None:
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
def test_odd_but_sound_items_are_taken(item: pb.IngestItem) -> None:
    assert not ingested(item).rejected


def embedded(*values: float, model: str = MODEL.fingerprint, **fields: object) -> pb.IngestItem:
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
def test_unfit_vector_rejects_only_its_item(item: pb.IngestItem, field: str, reason: str) -> None:
    call = ingested(item, segment_item(id="ok"), model=MODEL)

    assert call.places == [1]
    (violation,) = call.rejected[0][1]
    assert violation.field == f"items[0].segment.embedding{field}"
    assert violation.description == reason


def test_vector_of_the_model_is_accepted_despite_rounding() -> None:
    call = ingested(embedded(0.6, 0.8004), model=MODEL)

    assert call.batch.given is not None
    assert call.batch.given.vectors[segment_id("s1")].tolist() == pytest.approx([0.6, 0.8004])


@pytest.mark.parametrize(
    ("count", "key", "field"),
    [
        *((count, "", "items") for count in (0, 1001, 100_000)),
        (1, "k" * 257, "idempotency_key"),
    ],
)
def test_empty_oversized_or_overlong_call_is_rejected(count: int, key: str, field: str) -> None:
    with refused_for(field):
        ids_of(*[segment_item()] * count, key=key)


def ids_of(*items: pb.IngestItem, key: str = "") -> list[str]:
    request = pb.IngestRequest(tenant="acme", items=items, idempotency_key=key)
    return [item.id for item in to_ingest_call(request, NOON).batch.items]


def dated(**fields: object) -> pb.IngestItem:
    return segment_item(event_time=Timestamp(seconds=1_700_000_000), **fields)


def test_given_ids_are_kept() -> None:
    assert ids_of(segment_item(id="mine"), fact_item(id="own"), key="k") == ["mine", "own"]


@pytest.mark.parametrize("item", [segment_item(id=""), fact_item(id=""), dated(id="")])
def test_calls_of_one_key_make_the_same_ids(item: pb.IngestItem) -> None:
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
    versioned = pb.IngestItem(segment=segment_item(id="a").segment, if_version=3)

    call = ingested(versioned, fact_item(id="a"), segment_item(id="b"))

    assert call.batch.versions == {segment_id("a"): 3}


@pytest.mark.parametrize("item", [segment_item, fact_item])
def test_repeated_item_is_undated_as_its_last(item: Callable[..., pb.IngestItem]) -> None:
    field = "event_time" if item is segment_item else "recorded_at"
    undated, dated = item(id="a"), item(id="a", **{field: Timestamp(seconds=1)})

    assert ingested(undated, dated).batch.undated == set()
    assert len(ingested(dated, undated).batch.undated) == 1


def test_repeated_item_has_vector_and_version_of_last() -> None:
    first = pb.IngestItem(segment=embedded(1, 0).segment, if_version=3)

    batch = ingested(first, segment_item(), model=MODEL).batch

    assert batch.given is not None
    assert (len(batch.given.vectors), len(batch.versions)) == (0, 0)


# ---------------------------------------------------------------- times on the wire


zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
instants = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC) | zones)


@given(instants)
def test_instant_of_any_zone_equals_protobufs_own(instant: datetime) -> None:
    expected = Timestamp()
    expected.FromDatetime(instant)

    assert timestamp(instant) == expected
    assert timestamp(None) is None


@given(st.floats(-1e9, 1e9))
def test_seconds_of_either_sign_equal_protobufs_own(seconds: float) -> None:
    expected = Duration()
    expected.FromNanoseconds(int(seconds * 1e9))

    assert duration(seconds) == expected


# ---------------------------------------------------------------- patches


A, F = ItemRef(segment_id="a"), ItemRef(fact_id="f")
SOON, NOW, BEFORE = (Timestamp(seconds=int(NOON.timestamp()) + n) for n in (1, 0, -1))


def asked(item: ItemRef = A, **fields: Any) -> pb.PatchRequest:
    return pb.PatchRequest(**{"tenant": TENANT, "item": item, **fields})


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (asked(tenant="", title="x"), "tenant"),
        (asked(ItemRef(), title="x"), "item"),
        (asked(ItemRef(segment_id=" "), title="x"), "item.segment_id"),
        (asked(), "request"),
        (asked(if_version=1, time_zone="UTC"), "request"),
        (asked(text=" "), "text"),
        (asked(text="x" * 32_769), "text"),
        (asked(F, text="x" * 4_097), "text"),
        (asked(title="x" * 1_025), "title"),
        (asked(importance=1.5), "importance"),
        (asked(importance=float("nan")), "importance"),
        (asked(set_labels={"": "x"}), "set_labels['']"),
        (asked(set_labels={"k": "x" * 257}), "set_labels['k']"),
        (asked(set_labels={str(n): "" for n in range(MAX_LABELS + 1)}), "set_labels"),
        (asked(set_labels={"k": "x"}, remove_labels=["k"]), "set_labels['k']"),
        (asked(remove_labels=[""]), "remove_labels[0]"),
        (asked(remove_labels=[str(n) for n in range(MAX_LABELS + 1)]), "remove_labels"),
        (asked(expires_at=NOW), "expires_at"),
        (asked(expires_at=BEFORE), "expires_at"),
        (asked(expires_at=SOON, never_expires=True), "never_expires"),
        (asked(title="x", if_version=0), "if_version"),
        (asked(title="x", time_zone="Atlantis"), "time_zone"),
        (asked(F, title="x"), "title"),
        (asked(F, importance=0.5), "importance"),
        (asked(F, set_labels={"k": "x"}), "set_labels"),
        (asked(F, remove_labels=["k"]), "remove_labels"),
    ],
)
def test_invalid_field_of_a_patch_is_named(request_: pb.PatchRequest, field: str) -> None:
    with refused_for(field):
        to_patch_call(request_, NOON)


@pytest.mark.parametrize(
    ("request_", "patch"),
    [
        (asked(text="x"), Patch(text="x")),
        (asked(title=""), Patch(title="")),
        (asked(importance=0), Patch(importance=0)),
        (asked(F, text=""), Patch(text="")),
        (asked(expires_at=SOON), Patch(expires_at=SOON.ToDatetime(NOON.tzinfo))),
        (asked(never_expires=True), Patch(never_expires=True)),
        (
            asked(set_labels={"k": "x"}, remove_labels=["l"]),
            Patch(set_labels={"k": "x"}, remove_labels=("l",)),
        ),
    ],
)
def test_fields_that_are_set_change(request_: pb.PatchRequest, patch: Patch) -> None:
    assert to_patch_call(request_, NOON).patch == patch


async def patched(call: Call, request: pb.PatchRequest) -> Any:
    store = InMemoryStore()
    await store.write(batch_of(segment("a"), fact("f", "x", "y", "z")))
    patcher = Patcher(store, Ingestor(store), lambda: NOON)
    return await service_over({"patcher": patcher}, now=lambda: NOON).Patch(request, call)


@pytest.mark.parametrize("item", [A, F], ids=["segment", "fact"])
async def test_answer_has_the_item_and_its_version(item: ItemRef) -> None:
    answer = await patched(call := Call(), asked(item, text="We sailed.", if_version=1))

    assert call.code is grpc.StatusCode.OK
    found = answer.segment if item is A else answer.fact
    assert (found.id, found.version) == (item.segment_id or item.fact_id, 2)
    assert (answer.segment.text or answer.fact.sentence) == "We sailed."
    assert answer.consistency_token


@pytest.mark.parametrize(
    ("request_", "code", "reason", "metadata"),
    [
        (
            asked(title="x", if_version=7),
            grpc.StatusCode.ABORTED,
            "VERSION_CONFLICT",
            {"kind": "segment", "id": "a", "version": "1"},
        ),
        (
            asked(ItemRef(fact_id="a"), text="x"),
            grpc.StatusCode.NOT_FOUND,
            "ITEM_NOT_FOUND",
            {"kind": "fact", "id": "a"},
        ),
    ],
)
async def test_refused_patch_says_why(
    request_: pb.PatchRequest, code: grpc.StatusCode, reason: str, metadata: dict[str, str]
) -> None:
    await patched(call := Call(), request_)

    info = call.detail(ErrorInfo)
    assert (call.code, info.reason, dict(info.metadata)) == (code, reason, metadata)


# ---------------------------------------------------------------- erasures


def selected(**fields: Any) -> Selector:
    return to_selector(pb.ForgetRequest(**{"tenant": "acme", **fields}))[1]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "selector"),
        ({"everything": False}, "everything"),
        ({"session": ""}, "session"),
        ({"everything": True, "tenant": ""}, "tenant"),
        ({"ids": pb.ItemIds()}, "ids"),
    ],
)
def test_a_malformed_erasure_names_its_field(fields: dict[str, Any], field: str) -> None:
    with refused_for(field):
        selected(**fields)


@pytest.mark.parametrize(
    ("filter_", "field"),
    [
        (Filter(), ""),
        (Filter(min_importance=0), ""),
        (Filter(none_of=Exclusion(sessions=["now"])), ""),
        (Filter(all_of=[Filter(none_of=Exclusion(sessions=["now"]))]), ""),
        (
            Filter(kinds=["note"], any_of=[Filter(event_time=TimeRange(start=Timestamp()))]),
            ".any_of[0].event_time.start",
        ),
        (
            Filter(labels=[LabelFilter(key="due", date=TimeRange(end=Timestamp()))]),
            ".labels[0].date.end",
        ),
        (
            Filter(labels=[LabelFilter(key="page", number=NumberRange())]),
            ".labels[0].number",
        ),
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
    with refused_for(f"filter{field}"):
        selected(filter=filter_)


def test_erasure_by_label_and_time_requires_both() -> None:
    start = Timestamp(seconds=86_400)
    filter_ = Filter(
        labels=[LabelFilter(key="project", values=["goa"])], event_time=TimeRange(start=start)
    )

    selector = selected(filter=filter_)

    assert selector.filter is not None
    assert selector.filter.labels == {"project": ("goa",)}
    assert selector.filter.event_time.start == datetime(1970, 1, 2, tzinfo=UTC)
