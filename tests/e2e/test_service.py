"""What a user does, over the network."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from bench.speed.ingest import only
from tests.fixtures.service import Service
from tests.fixtures.shared_service import link
from tests.support.answers import states
from trivium import ChangeKind, Client, Embedding, Segment
from trivium.errors import InvalidRequestError, to_error
from trivium.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc
from trivium.values import ItemState, LegState, TenantStats
from trivium.wire import requests

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)


def day(count: int) -> datetime:
    return MAY + timedelta(days=count)


def _counts(memory: Client) -> TenantStats:
    counts = memory.stats().tenant
    assert counts is not None
    return counts


def said(id_: str, speaker: str, text: str, on_day: int) -> Segment:
    return Segment(id=id_, speaker=speaker, text=text, event_time=day(on_day), session="s1")


CONVERSATION = [
    said("t1", "Mara", "We signed for the flat in Lisbon, the keys come in June.", 0),
    said("t2", "Tom", "Lotus Books hired me, I start on Monday.", 1),
    said("t3", "Mara", "Boats make my stomach heave.", 2),
    said("t4", "Tom", "The dog sleeps all day since the heat came.", 3),
]
FACTS = [
    link("f1", "Tom", "works at", "Lotus Books", evidence=("t2",), valid_from=day(1)),
    link("f2", "Lotus Books", "is in", "Rua das Flores", evidence=("t4",), valid_from=day(1)),
]


@pytest.fixture
def memory(service: Service) -> Client:
    return service.client(tenant=f"t-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def stored(memory: Client) -> tuple[Client, str]:
    """A client with a small conversation stored, and the token of that write."""
    return memory, memory.ingest([*CONVERSATION, *FACTS]).consistency_token


@pytest.mark.placement
def test_turn_is_found_by_words_meaning_and_relations(stored: tuple[Client, str]) -> None:
    memory, token = stored

    answer = memory.retrieve("Who hired Tom?", consistency_token=token, explain=True)

    assert set(states(answer).values()) == {LegState.OK}
    assert answer.hits[0].id == "t2"
    assert {"lexical", "dense", "facts", "graph"} <= set(answer.hits[0].legs)


@pytest.mark.placement
def test_an_update_reaches_every_leg(stored: tuple[Client, str]) -> None:
    memory, _ = stored

    token = memory.ingest([said("t3", "Mara", "I love sailing now.", 2)]).consistency_token

    for leg in ("lexical", "dense", "graph"):
        answer = memory.retrieve("Mara sailing", consistency_token=token, leg_overrides=only(leg))
        assert "I love sailing now." in [hit.text for hit in answer.hits], leg


def test_speaker_is_described_and_changes_are_streamed(stored: tuple[Client, str]) -> None:
    memory, token = stored

    found = memory.describe(speaker="tom", as_of=day(4))
    memory.forget(segment_ids=["t4"])
    watched = memory.watch_changes(token)
    changes = {each.item.id: each.change for each in [*next(watched).changes]}

    assert [each.id for each in found.facts] == ["f1"]
    assert [each.id for each in found.statements] == ["t4", "t2"]
    assert changes["t1"] is ChangeKind.STORED
    assert changes["t4"] is ChangeKind.ERASED


@pytest.mark.placement
def test_call_with_less_time_than_budget_is_answered(service: Service, memory: Client) -> None:
    token = memory.ingest([Segment(id="t1", text="Lotus Books hired Tom.")]).consistency_token
    # That of a write that does not come, for which the legs wait as long as they can.
    version, epoch, *_ = token.split("~")
    request = requests.retrieve(
        memory.tenant, "Tom?", timeout=25, consistency_token=f"{version}~{epoch}~3~{2**62}"
    )

    with grpc.insecure_channel(service.address) as channel:
        stub = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)
        answer = _before_it_ends(stub, request, 2) or stub.Retrieve(request, timeout=18)

    assert {report.state for report in answer.leg_reports} & {
        retrieval_service_pb2.LEG_STATE_STALE,
        retrieval_service_pb2.LEG_STATE_TIMED_OUT,
    }


def _before_it_ends(stub: Any, request: Any, timeout_s: float) -> Any:
    """The answer; None if a busy machine was not in time."""
    try:
        return stub.Retrieve(request, timeout=timeout_s)
    except grpc.RpcError:
        return None


def test_a_stream_stores_everything_and_its_token_covers_it(memory: Client) -> None:
    many = [Segment(id=f"n{i}", text=f"Number {i} is a fine number.") for i in range(700)]

    stored = memory.ingest_stream(many)

    assert (stored.created_count, stored.rejected_count) == (700, 0)
    answer = memory.retrieve(
        "number 699", consistency_token=stored.consistency_token, leg_overrides=only("dense")
    )
    assert states(answer)["dense"] is LegState.OK
    assert _counts(memory).embedded_count == 700


def test_invalid_utf_8_is_rejected_as_bad_request(service: Service) -> None:
    not_utf8 = b"\x0a\x01\xff"  # field 1, a string of one byte
    with grpc.insecure_channel(service.address) as channel:
        unary: Any = channel.unary_unary("/trivium.v1.IngestService/Ingest")
        stream: Any = channel.stream_unary("/trivium.v1.IngestService/IngestStream")
        with pytest.raises(grpc.RpcError) as refused:
            unary(not_utf8, timeout=30)
        with pytest.raises(grpc.RpcError) as stream_refused:
            stream(iter([not_utf8]), timeout=30)

    errors = [to_error(each.value) for each in (refused, stream_refused)]
    assert [type(error) for error in errors] == [InvalidRequestError] * 2
    assert [error.reason for error in errors] == ["INVALID_FIELD"] * 2
    assert [error.violations[0].field for error in errors] == ["request"] * 2


@pytest.mark.placement
def test_segment_is_found_by_its_given_vector(memory: Client) -> None:
    service = memory.stats().service
    vector = [1.0] + [0.0] * (service.dimension - 1)
    items = [
        Segment(
            id="given", text="Sailing.", embedding=Embedding(service.model_fingerprint, vector)
        ),
        Segment(id="of another model", text="Sailing.", embedding=Embedding("other", vector)),
        Segment(id="computed", text="Sailing."),
    ]

    written = memory.ingest(items)
    found = memory.retrieve(
        "",
        vector=vector,
        leg_overrides=only("dense"),
        consistency_token=written.consistency_token,
        limit=1,
    )

    assert [outcome.state for outcome in written.outcomes] == [
        ItemState.CREATED,
        ItemState.REJECTED,
        ItemState.CREATED,
    ]
    assert [hit.id for hit in found.hits] == ["given"]


@pytest.mark.placement
def test_stats_describe_the_running_service(service: Service, stored: tuple[Client, str]) -> None:
    memory, token = stored
    memory.retrieve("Tom", consistency_token=token)

    stats = memory.stats()

    assert stats.service.placement == service.placement
    assert stats.service.ingress == "haproxy"
    assert not stats.service.degraded
    counts = _counts(memory)
    assert (counts.segment_count, counts.fact_count) == (4, 2)
    assert counts.embedded_count == counts.embeddable_count == 6
    assert {projection.pending_count for projection in stats.projections} == {0}
