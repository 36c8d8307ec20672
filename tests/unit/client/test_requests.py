from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

import trivium
from tests.fakes.service import RESPONSES
from trivium import (
    Embedding,
    Exclusion,
    Fact,
    Filter,
    Item,
    LegOverride,
    NumberRange,
    Segment,
    TimeRange,
)
from trivium.v1 import admin_service_pb2, retrieval_service_pb2
from trivium.wire import requests, responses
from trivium.wire.requests import Batcher

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_absent_fields_are_not_sent() -> None:
    request = requests.retrieve("acme", "why?", timeout=1)

    sent = {field.name for field, _ in request.ListFields()}
    assert sent == {"tenant", "query", "time_budget"}


@pytest.mark.parametrize("override", [LegOverride(weight=0), {"weight": 0}])
def test_override_sends_weight_zero_but_no_absent_depth(override: Any) -> None:
    overrides = {"graph": override}

    (sent,) = requests.retrieve("acme", "why?", timeout=1, leg_overrides=overrides).leg_overrides

    assert (sent.leg, sent.HasField("weight"), sent.HasField("depth")) == ("graph", True, False)


def test_unknown_field_of_an_override_is_refused() -> None:
    with pytest.raises(ValueError, match=r"leg_overrides\['graph'\] must have only weight, depth"):
        requests.retrieve("acme", "why?", timeout=1, leg_overrides={"graph": {"floor": 0}})


@pytest.mark.parametrize(
    ("tenants", "sent"),
    [
        ((), ("acme", [])),
        (["mine", "house"], ("", [("mine", None), ("house", None)])),
        ({"mine": 1, "house": 0.5}, ("", [("mine", 1.0), ("house", 0.5)])),
    ],
)
def test_tenants_are_sent_in_place_of_one(tenants: Any, sent: object) -> None:
    request = requests.retrieve("acme", "why?", timeout=1, tenants=tenants)

    several = [
        (each.tenant, each.weight if each.HasField("weight") else None) for each in request.tenants
    ]
    assert (request.tenant, several) == sent


def test_filter_is_sent_field_by_field() -> None:
    given = Filter(
        kinds=["note"],
        labels={"project": ["a", "b"]},
        min_importance=0.25,
        event_time=TimeRange(start=NOON),
        none_of=Exclusion(sessions=["now"], ids=["a"], fact_ids=["f"], speakers=["Bot"]),
    )

    sent = requests.retrieve("acme", "why?", timeout=1, filter=given).filter

    assert list(sent.kinds) == ["note"]
    assert [(label.key, list(label.values)) for label in sent.labels] == [("project", ["a", "b"])]
    assert sent.min_importance == 0.25
    assert sent.event_time.start.ToDatetime(tzinfo=UTC) == NOON
    assert not sent.event_time.HasField("end")
    assert list(sent.none_of.sessions) == ["now"]
    assert [*sent.none_of.ids, *sent.none_of.fact_ids, *sent.none_of.speakers] == ["a", "f", "Bot"]


def test_filter_reads_as_it_was_sent() -> None:
    given = Filter(
        kinds=("note",),
        labels={
            "project": ("a", "b"),
            "stars": NumberRange(min=3),
            "due": TimeRange(end=NOON),
            "done": False,
        },
        created_at=TimeRange(NOON, None),
        none_of=Exclusion(ids=("a",), filters=(Filter(speakers=("Bot",)),)),
        all_of=(Filter(entities=("Goa",)),),
        any_of=(Filter(sessions=("s",)), Filter(min_importance=0.5)),
    )

    sent = requests.retrieve("acme", "why?", timeout=1, filter=given).filter

    assert responses.read(Filter, sent) == given


def filled(message: Any) -> Any:
    """The message with all that is within it, down to a third level."""

    def fill(one: Any, depth: int) -> None:
        for field in one.DESCRIPTOR.fields:
            if field.message_type and not field.message_type.GetOptions().map_entry and depth:
                within = getattr(one, field.name)
                within = within.add() if field.is_repeated else within
                within.SetInParent()
                fill(within, depth - 1)

    fill(message, 3)
    return message


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (trivium.Retrieval, RESPONSES["Retrieve"]),
        (trivium.StreamedRetrieval, RESPONSES["RetrieveStream"]),
        (trivium.Description, RESPONSES["DescribeEntity"]),
        (trivium.WarmPart, retrieval_service_pb2.WarmPart),
        (trivium.Comparison, RESPONSES["Compare"]),
        (trivium.Absence, RESPONSES["ExplainAbsence"]),
        (trivium.IngestResult, RESPONSES["Ingest"]),
        (trivium.StreamResult, RESPONSES["IngestStream"]),
        (trivium.PatchResult, RESPONSES["Patch"]),
        (trivium.ForgetResult, RESPONSES["Forget"]),
        (trivium.SegmentsFound, RESPONSES["GetSegments"]),
        (trivium.FactsFound, RESPONSES["GetFacts"]),
        (trivium.Changes, RESPONSES["WatchChanges"]),
        (trivium.Stats, RESPONSES["GetStats"]),
        (trivium.AuditEntry, admin_service_pb2.AuditEntry),
        (trivium.Tenant, admin_service_pb2.Tenant),
        (trivium.NewKey, RESPONSES["CreateKey"]),
    ],
)
def test_fields_of_a_value_are_in_its_message(kind: type, message: Callable[[], Any]) -> None:
    value: object = responses.read(kind, filled(message()))

    assert type(value) is kind


def test_a_segment_is_sent_with_its_vector_or_without() -> None:
    items = [
        Segment(id="a", text="b", embedding=Embedding("model", [0.5, -0.5])),
        Segment(id="b", text="b"),
    ]

    with_vector, without = requests.ingest("acme", items).items

    assert with_vector.segment.embedding.model_fingerprint == "model"
    assert list(with_vector.segment.embedding.values) == [0.5, -0.5]
    assert not without.segment.HasField("embedding")


def test_time_without_a_zone_is_refused() -> None:
    naive = NOON.replace(tzinfo=None)

    with pytest.raises(ValueError, match="2026-03-01 12:00:00 has no time zone"):
        requests.ingest("acme", [Segment(id="a", text="b", event_time=naive)])


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (Segment(id="a", text="cut \ud83d"), "the segment 'a' cannot be sent: 'text' has a lone"),
        (Segment(id="a", text="b", labels={"\udc00": "c"}), "'labels' has a lone"),
        (Segment(id="a", text="b", entities=["Goa", "\ud83d"]), "'entities' has a lone"),
        (Fact(id="\ud83d", subject="a", relation="b", object="c"), r"fact '\\ud83d' .*: 'id' has"),
    ],
)
def test_lone_surrogate_is_rejected_by_item_and_field(item: Item, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        requests.ingest("acme", [Segment(id="sound", text="We sailed 🙂."), item])

    assert not isinstance(refused.value, UnicodeError)


def test_question_with_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="the query cannot be sent"):
        requests.retrieve("acme", "cut \ud83d", timeout=1)


def test_time_of_another_zone_is_sent_as_instant() -> None:
    lisbon = NOON.astimezone(timezone(timedelta(hours=1)))

    request = requests.retrieve("acme", "why?", timeout=1, as_of=lisbon, known_at=lisbon)

    assert request.as_of.ToDatetime(tzinfo=UTC) == NOON
    assert request.known_at.ToDatetime(tzinfo=UTC) == NOON


def test_zero_importance_and_stored_time_differ_from_none() -> None:
    items = [Segment(id="a", text="a", importance=0.0, created_at=NOON), Segment(id="b", text="b")]

    given, bare = (item.segment for item in requests.ingest("acme", items).items)

    assert given.created_at.ToDatetime(tzinfo=UTC) == NOON
    assert (given.HasField("importance"), bare.HasField("importance")) == (True, False)
    assert not bare.HasField("created_at")


def test_fact_is_sent_with_its_evidence_in_order() -> None:
    fact = Fact(id="f", subject="a", relation="knows", object="b", evidence=["2", "1"])

    (sent,) = requests.ingest("acme", [fact]).items

    assert list(sent.fact.evidence) == ["2", "1"]


@pytest.mark.parametrize(
    ("turns", "text", "expected"),
    [(450, "hi", [200, 200, 50]), (70, "x" * 30_000, [34, 34, 2])],
    ids=["by count", "by size"],
)
def test_stream_is_cut(turns: int, text: str, expected: list[int]) -> None:
    batcher = Batcher("acme")
    segments = [Segment(id=str(place), text=text) for place in range(turns)]

    messages = [message for each in segments for message in batcher.add(each)]
    messages += batcher.flush()

    assert [len(message.items) for message in messages] == expected


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"session": "a", "speaker": "b"},
        {"everything": False},
        {"session": "a", "filter_": Filter(kinds=["note"])},
    ],
)
def test_forgetting_needs_exactly_one_selector(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        requests.forget("acme", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("labels", {"page": 3}, "'labels' has 3, which is no string"),
        ("labels", {"page": True}, "'labels' has True, which is no string"),
        ("labels", {"page": None}, "'labels' has None, which is no string"),
        ("labels", {3: "page"}, "'labels' has 3, which is no string"),
        ("text", 3, "'text' has 3, which is no string"),
        ("keywords", ["x", 3], "'keywords' has 3, which is no string"),
        ("importance", "high", "the segment 'a' cannot be sent: "),
        ("event_time", "yesterday", "'event_time' has 'yesterday', which is no datetime"),
        ("expires_at", 5, "'expires_at' has 5, which is no datetime"),
    ],
)
def test_value_of_another_type_is_named(field: str, value: Any, said: str) -> None:
    item = Segment(**{"id": "a", "text": "x", field: value})

    with pytest.raises(TypeError, match=said):
        requests.ingest("acme", [item])


def filtered(given: Filter) -> object:
    return requests.list_segments("acme", given, 0)


def filtered_by(field: str, values: Any) -> object:
    return filtered(Filter(**{field: values}))


def left_out_by(field: str, values: Any) -> object:
    return filtered(Filter(none_of=Exclusion(**{field: values})))


LISTS: dict[str, Callable[[Any], object]] = {
    "segment_ids": lambda one: requests.forget("acme", segment_ids=one),
    "fact_ids": lambda one: requests.forget("acme", fact_ids=one),
    "seed_ids": lambda one: requests.retrieve("acme", "why?", timeout=1, seed_ids=one),
    "required_legs": lambda one: requests.retrieve("acme", "why?", timeout=1, required_legs=one),
    "tenants": lambda one: requests.retrieve("acme", "why?", timeout=1, tenants=one),
    "list_facts": lambda one: requests.list_facts("acme", one, None, 0),
    "entities": lambda one: requests.ingest("acme", [Segment(text="x", entities=one)]),
    "keywords": lambda one: requests.ingest("acme", [Segment(text="x", keywords=one)]),
    "evidence": lambda one: requests.to_message(
        Fact(subject="a", relation="b", object="c", evidence=one)
    ),
    "closes": lambda one: requests.to_message(
        Fact(subject="a", relation="b", object="c", closes=one)
    ),
    **{
        f"filter {name}": partial(filtered_by, name)
        for name in ("kinds", "speakers", "sessions", "entities")
    },
    "labels": lambda one: filtered(Filter(labels={"stars": one})),
    **{
        f"none_of {name}": partial(left_out_by, name)
        for name in ("kinds", "speakers", "sessions", "ids", "fact_ids")
    },
}
"""What sends a list of texts."""


@pytest.mark.parametrize("send", LISTS.values(), ids=LISTS)
def test_text_in_place_of_list_is_refused(send: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"must be a list, such as \['t1'\], is 't1'"):
        send("t1")
    send(["t1"])
