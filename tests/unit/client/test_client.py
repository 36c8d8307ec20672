from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_health.v1 import health_pb2

from tests.fakes.service import Failure, FakeService, running
from trivium import (
    AsyncClient,
    ChangeKind,
    Client,
    DeadlineError,
    Fact,
    Health,
    ItemState,
    LegState,
    OverloadedError,
    PreconditionError,
    Retrieval,
    Role,
    Segment,
    Transcript,
    TriviumError,
    UnavailableError,
)
from trivium.v1.admin_service_pb2 import (
    ROLE_READER,
)
from trivium.v1.admin_service_pb2 import AuditEntry as EntryMessage
from trivium.v1.ingest_service_pb2 import (
    IngestResponse,
)
from trivium.v1.retrieval_service_pb2 import (
    LegReport,
    RetrieveResponse,
)
from trivium.wire.requests import RetrieveOptions

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Code = grpc.StatusCode
UNKNOWN_ROLE: Any = 99
UNAVAILABLE = Failure(Code.UNAVAILABLE, "restarting")


def test_timeout_sets_deadline_and_budget(client: Client, fake_service: FakeService) -> None:
    client.retrieve("why?", timeout=100)

    assert fake_service.deadlines_s == [about(100)]
    assert fake_service.request().time_budget.ToTimedelta() == timedelta(seconds=90)


def test_call_without_a_timeout_has_that_of_the_client(
    client: Client, fake_service: FakeService
) -> None:
    client.retrieve("why?")
    client.ingest([])
    client.ingest_stream([])

    assert fake_service.deadlines_s == [about(10), about(60), about(3600)]


@pytest.mark.parametrize("timeout", [float("nan"), float("inf")])
def test_timeout_is_a_finite_number(timeout: float, client: Client) -> None:
    said = [Transcript("why?", final=True, timeout=timeout)]
    calls: list[Callable[[], object]] = [
        lambda: client.retrieve("why?", timeout=timeout),
        lambda: client.ingest([], timeout=timeout),
        lambda: list(client.retrieve_stream(said)),
    ]

    for call in calls:
        with pytest.raises(ValueError, match="timeout must be a finite number of seconds"):
            call()


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, "Asia/Kolkata"),
        ({"time_zone": "Europe/Lisbon"}, "Europe/Lisbon"),
        ({"as_of": NOON}, "Asia/Kolkata"),
        ({"as_of": NOON.astimezone(ZoneInfo("America/Lima"))}, "America/Lima"),
        ({"as_of": NOON.astimezone(timezone(timedelta(hours=-8)))}, "-08:00"),
        ({"as_of": NOON.astimezone(ZoneInfo("UTC"))}, "Asia/Kolkata"),
    ],
)
def test_time_zone_is_the_nearest_given(
    fake_service: FakeService, options: RetrieveOptions, sent: str
) -> None:
    with Client(fake_service.address, tenant="acme", time_zone="Asia/Kolkata") as client:
        client.retrieve("what did we do today?", **options)

    assert fake_service.requests[-1].time_zone == sent


def test_queries_of_a_batch_are_answered_in_order(
    client: Client, fake_service: FakeService
) -> None:
    error = {"code": grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "message": "busy"}
    results = [{"response": {"briefing": "one"}}, {"error": error}]
    fake_service.will_answer("RetrieveBatch", {"results": results})

    first, second = client.retrieve_batch(["one?", "two?"], limit=3)

    assert isinstance(first, Retrieval)
    assert first.briefing == "one"
    assert isinstance(second, OverloadedError)
    assert second.message == "busy"
    [sent] = fake_service.requests
    assert sent.tenant == "acme"
    assert [(each.query, each.limit) for each in sent.requests] == [("one?", 3), ("two?", 3)]


def test_description_has_rows_and_block(client: Client, fake_service: FakeService) -> None:
    answer = {"facts": [{"id": "f"}], "statements": [{"id": "s"}], "briefing": "<memory>"}
    fake_service.will_answer("DescribeEntity", answer)
    kathmandu = timezone(timedelta(hours=5, minutes=45))

    found = client.describe(
        speaker="Mia", as_of=datetime(2026, 3, 1, tzinfo=kathmandu), max_chars=500, timeout=10
    )

    assert ([each.id for each in found.facts], [each.id for each in found.statements]) == (
        ["f"],
        ["s"],
    )
    assert found.briefing == "<memory>"
    [sent] = fake_service.requests
    assert (sent.tenant, sent.speaker, sent.WhichOneof("who")) == ("acme", "Mia", "speaker")
    assert (sent.max_chars, sent.time_zone) == (500, "+05:45")
    assert sent.time_budget.ToTimedelta() == timedelta(seconds=9)


def test_watching_goes_on_from_the_last_token(client: Client, fake_service: FakeService) -> None:
    erased = {"item": {"fact_id": "f"}, "change": "CHANGE_KIND_ERASED", "token": "2~e~4~~"}
    future: Any = 99
    unknown = {"item": {"segment_id": "s"}, "change": future}
    fake_service.will_answer(
        "WatchChanges",
        {"changes": [erased], "token": "2~e~5~~"},
        {"changes": [unknown], "token": "2~e~6~~"},
    )

    watched = client.watch_changes("2~e~3~~", batch_size=7)
    first, second = next(watched), next(watched)

    [change] = first.changes
    assert (change.item.kind.value, change.item.id) == ("fact", "f")
    assert (change.change, change.token) == (ChangeKind.ERASED, "2~e~4~~")
    assert first.token == "2~e~5~~"
    assert second.changes[0].change is ChangeKind.UNKNOWN
    assert [each.after_token for each in fake_service.requests] == ["2~e~3~~", "2~e~5~~"]
    assert {(each.tenant, each.batch_size) for each in fake_service.requests} == {("acme", 7)}


def test_watching_from_a_lost_position_raises(client: Client, fake_service: FakeService) -> None:
    gone = Failure(Code.FAILED_PRECONDITION, "gone", [ErrorInfo(reason="CHANGES_GONE")])
    fake_service.will_answer("WatchChanges", gone)

    with pytest.raises(PreconditionError) as raised:
        list(client.watch_changes("2~e~3~~"))

    assert raised.value.reason == "CHANGES_GONE"


def test_items_without_ids_have_a_key(client: Client, fake_service: FakeService) -> None:
    client.ingest([Segment(text="We sailed.")])
    client.ingest([Segment(id="a", text="We sailed.")])

    keys = [request.idempotency_key for request in fake_service.requests]
    assert [bool(key) for key in keys] == [True, False]


def test_patch_sends_only_given_fields(client: Client, fake_service: FakeService) -> None:
    stored = {"id": "a", "text": "We sailed.", "version": 2}
    told = {"id": "f", "subject": "Ann", "version": 3}
    seen = {"segment": stored, "consistency_token": "t"}
    fake_service.will_answer("Patch", seen, {"fact": told}, {})

    said = client.patch(segment_id="a", title="", importance=0.0, if_version=1)
    fact = client.patch(fact_id="f", text="Ann sails.", never_expires=True)
    unseen = client.patch(segment_id="a", set_labels={"k": "x"}, remove_labels=["l"])

    assert said.item == Segment(id="a", text="We sailed.", version=2)
    assert said.consistency_token == "t"
    assert fact.item is not None
    assert (fact.item.id, fact.item.version, unseen.item) == ("f", 3, None)
    first, second, third = fake_service.requests
    assert first.HasField("title")
    assert first.HasField("importance")
    assert not first.HasField("text")
    assert (first.item.segment_id, first.if_version, first.tenant) == ("a", 1, "acme")
    assert (second.item.fact_id, second.text, second.never_expires) == ("f", "Ann sails.", True)
    assert (dict(third.set_labels), list(third.remove_labels)) == ({"k": "x"}, ["l"])


MALFORMED: dict[str, tuple[Callable[[Client], object], str]] = {
    "no description": (lambda client: client.describe(), "exactly one of speaker and entity"),
    "two descriptions": (
        lambda client: client.describe(speaker="Mia", entity="Mia"),
        "exactly one of speaker and entity",
    ),
    "no item": (lambda client: client.patch(text="x"), "exactly one of segment_id and fact_id"),
    "two items": (
        lambda client: client.patch(segment_id="a", fact_id="f"),
        "exactly one of segment_id and fact_id",
    ),
    "one label": (
        lambda client: client.patch(segment_id="a", remove_labels="t1"),
        r"must be a list, such as \['t1'\]",
    ),
    "no absent item": (
        lambda client: client.explain_absence("why?"),
        "exactly one of segment_id and fact_id",
    ),
    "two absent items": (
        lambda client: client.explain_absence("why?", segment_id="a", fact_id="b"),
        "exactly one of segment_id and fact_id",
    ),
    "an unwritable item": (
        lambda client: client.ingest(
            [Segment(text="We sailed."), Segment(id="cut", text="\ud83d")]
        ),
        "the segment 'cut' cannot be sent",
    ),
}


@pytest.mark.parametrize(("call", "said"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_request_is_not_sent(
    client: Client, fake_service: FakeService, call: Callable[[Client], object], said: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        call(client)

    assert fake_service.requests == []


def test_unavailable_is_tried_four_times(client: Client, fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", *[UNAVAILABLE] * 3)
    client.retrieve("why?")
    assert len(fake_service.requests) == 4

    fake_service.will_answer("Retrieve", *[UNAVAILABLE] * 4)
    with pytest.raises(UnavailableError, match="restarting"):
        client.retrieve("why?")
    assert len(fake_service.requests) == 8


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(Code.RESOURCE_EXHAUSTED), OverloadedError),
        (Failure(Code.UNAVAILABLE, "", [ErrorInfo(reason="STORE_UNAVAILABLE")]), UnavailableError),
    ],
    ids=["another code", "with details"],
)
def test_other_failures_are_left_to_the_caller(
    client: Client, fake_service: FakeService, failure: Failure, expected: type[TriviumError]
) -> None:
    fake_service.will_answer("Retrieve", failure)

    with pytest.raises(expected):
        client.retrieve("why?")

    assert len(fake_service.requests) == 1


def test_silent_server_costs_no_more_than_the_timeout() -> None:
    answered = threading.Event()

    class Stuck(FakeService):
        def Retrieve(self, request: Any, context: Any) -> Any:  # noqa: N802
            answered.wait(30)

    with running(Stuck()) as stuck, Client(stuck.address, tenant="acme") as client:
        with pytest.raises(DeadlineError):
            client.retrieve("why?", timeout=0.05)
        answered.set()


def test_retrieval_is_read_into_values(client: Client, fake_service: FakeService) -> None:
    term = {"leg": "dense", "rank": 1, "leg_score": 0.5, "term": 1 / 61, "fact_ids": ["f"]}
    mmr = {"trade_off": 0.7, "relevance": 1.0, "value": 0.7}
    ledger = {"leg_terms": [term], "rank_constant": 60, "diversity": mmr}
    answer = RetrieveResponse()
    answer.hits.add(
        rank=1,
        segment={"id": "a", "text": "We sailed."},
        folded=[{"segment_id": "b"}],
        ledger=ledger,
    )
    answer.hits[0].segment.event_time.FromDatetime(NOON)
    answer.hits.add(
        rank=2,
        fact={"id": "f", "subject": "we", "relation": "like", "object": "it"},
        outdated_by={"segment_id": "a"},
    )
    answer.leg_reports.add(leg="dense", state="LEG_STATE_OK")
    answer.leg_reports.add(leg="graph", state="LEG_STATE_TIMED_OUT", reason="the budget ran out")
    fake_service.will_answer("Retrieve", answer)

    found = client.retrieve("why?", explain=True)

    first, second = found.hits
    assert first.item == Segment(id="a", text="We sailed.", event_time=NOON)
    assert first.ledger is not None
    assert first.ledger.leg_terms[0].fact_ids == ("f",)
    assert first.ledger.diversity is not None
    assert first.ledger.diversity.trade_off == 0.7
    assert (first.ledger.decay, first.ledger.importance) == (None, None)
    assert isinstance(second.item, Fact)
    assert second.text == "we like it"
    assert (first.outdated_by, second.outdated_by) == (None, first.ref)
    assert [report.state for report in found.leg_reports] == [LegState.OK, LegState.TIMED_OUT]
    assert not found.complete
    assert [found.rank_of([id_]) for id_ in ("a", "b", "f", "z")] == [1, 1, 2, None]


def test_state_of_a_newer_server_is_unknown(client: Client, fake_service: FakeService) -> None:
    report = LegReport.FromString(b"\x0a\x05dense\x10\x63")
    fake_service.will_answer("Retrieve", {"leg_reports": [report]})

    found = client.retrieve("why?")

    assert found.leg_reports[0].state is LegState.UNKNOWN


def test_briefing_is_the_servers_block(client: Client, fake_service: FakeService) -> None:
    fake_service.will_answer("Retrieve", {"briefing": "<memory>\n</memory>"})

    block = client.briefing("why?", max_chars=500, limit=3)

    request = fake_service.request()
    assert block == "<memory>\n</memory>"
    assert (request.briefing.max_chars, request.limit) == (500, 3)
    assert client.briefing("and of nothing?") == ""


def test_rejected_items_are_reported_not_raised(client: Client, fake_service: FakeService) -> None:
    stored = IngestResponse(consistency_token="1~e~0~9")
    stored.outcomes.add(index=0, item={"segment_id": "a"}, state="ITEM_STATE_CREATED")
    rejected = stored.outcomes.add(index=1, item={"segment_id": "b"}, state="ITEM_STATE_REJECTED")
    rejected.violations.add(field="items[1].segment.text", description="is blank")
    fake_service.will_answer("Ingest", stored)

    result = client.ingest([Segment(id="a", text="b"), Segment(id="b", text=" ")])

    assert [outcome.state for outcome in result.outcomes] == [ItemState.CREATED, ItemState.REJECTED]
    assert result.rejected[0].violations == (("items[1].segment.text", "is blank"),)
    assert result.consistency_token == "1~e~0~9"


def test_stream_sends_all_items_and_tells_its_progress(
    client: Client, fake_service: FakeService
) -> None:
    fake_service.will_answer("IngestStream", {"created_count": 450})
    progress: list[int] = []

    ids = [str(place) for place in range(450)]
    turns = (Segment(id=id_, text="hi") for id_ in ids)
    result = client.ingest_stream(turns, progress=progress.append)

    messages = fake_service.request()
    assert [item.segment.id for message in messages for item in message.items] == ids
    assert {message.tenant for message in messages} == {"acme"}
    assert progress == [200, 400, 450]
    assert result.created_count == 450


def test_error_of_items_is_raised_after_earlier_ones(
    client: Client, fake_service: FakeService
) -> None:
    def turns() -> Iterator[Segment]:
        yield Segment(id="a", text="hi")
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        client.ingest_stream(turns())

    (message,) = fake_service.request()
    assert [item.segment.id for item in message.items] == ["a"]


def test_pages_of_segments_are_read_to_the_end(client: Client, fake_service: FakeService) -> None:
    fake_service.will_answer(
        "ListSegments",
        {"segments": [{"id": "a"}], "next_page_token": "more"},
        {"segments": [{"id": "b"}]},
    )

    assert [segment.id for segment in client.list_segments(page_size=1)] == ["a", "b"]
    pages = [(each.page_size, each.page_token) for each in fake_service.requests]
    assert pages == [(1, ""), (1, "more")]


def test_pages_of_facts_are_read_lazily(client: Client, fake_service: FakeService) -> None:
    page = {"facts": [{"id": "f"}], "next_page_token": "more"}
    fake_service.will_answer("ListFacts", page, page)

    first = next(client.list_facts(entities=["Nora"], valid_at=NOON))

    assert first.id == "f"
    assert list(fake_service.request().entities) == ["Nora"]


def test_tenants_and_keys_are_read_to_the_end(client: Client, fake_service: FakeService) -> None:
    held = {"name": "acme", "segment_count": 3, "fact_count": 1, "text_bytes": 70}
    fake_service.will_answer(
        "ListTenants",
        {"tenants": [held], "next_page_token": "more"},
        {"tenants": [{"name": "other"}]},
    )
    key = {"id": "k1", "roles": ["ROLE_READER", UNKNOWN_ROLE], "tenant": "acme", "note": "the bot"}
    fake_service.will_answer("ListKeys", {"keys": [key]})

    tenants = list(client.list_tenants(page_size=1))
    (listed,) = client.list_keys()

    assert [(each.name, each.segment_count, each.text_bytes) for each in tenants] == [
        ("acme", 3, 70),
        ("other", 0, 0),
    ]
    assert tenants[0].updated_at is None
    assert [each.page_token for each in fake_service.requests] == ["", "more", ""]
    assert (listed.id, listed.tenant, listed.note) == ("k1", "acme", "the bot")
    assert listed.roles == {Role.READER, Role.UNKNOWN}


def test_audit_log_is_of_one_or_all_tenants(client: Client, fake_service: FakeService) -> None:
    entry = EntryMessage(caller="key k1", rpc="Forget", tenant="acme", erased_count=3)
    entry.at.FromDatetime(NOON)
    page = {"entries": [entry]}
    fake_service.will_answer("ListAuditEntries", page, page)

    (read,) = client.list_audit_entries()
    list(client.list_audit_entries(all_tenants=True, page_size=2))

    assert (read.at, read.caller, read.rpc) == (NOON, "key k1", "Forget")
    assert (read.tenant, read.erased_count, read.key_id) == ("acme", 3, "")
    asked = [(each.tenant, each.page_size) for each in fake_service.requests]
    assert asked == [(client.tenant, 0), ("", 2)]


def test_made_key_has_secret_that_no_repr_shows(client: Client, fake_service: FakeService) -> None:
    fake_service.will_answer("CreateKey", {"secret": "trv_k1_s", "key": {"id": "k1"}})

    made = client.create_key([Role.READER], tenant="acme", note="bot", expires_at=NOON)
    client.revoke_key(made.key.id)

    asked, revoked = fake_service.requests
    assert (list(asked.roles), asked.tenant, asked.note) == ([ROLE_READER], "acme", "bot")
    assert asked.expires_at.ToDatetime(tzinfo=UTC) == NOON
    assert (made.secret, revoked.id) == ("trv_k1_s", "k1")
    assert made.secret not in repr(made)


def test_key_is_not_made_again_after_a_failure(client: Client, fake_service: FakeService) -> None:
    fake_service.will_answer("CreateKey", UNAVAILABLE)

    with pytest.raises(UnavailableError):
        client.create_key([Role.READER], all_tenants=True)

    assert len(fake_service.requests) == 1


def test_missing_segments_and_facts_are_named(client: Client, fake_service: FakeService) -> None:
    segments = {"segments": [{"id": "a"}], "missing_ids": ["z"]}
    fake_service.will_answer("GetSegments", segments)
    facts = {"facts": [{"id": "f"}], "missing_ids": ["y"]}
    fake_service.will_answer("GetFacts", facts)

    segments_found = client.get_segments(["a", "z"])
    facts_found = client.get_facts(["f", "y"])

    assert [segment.id for segment in segments_found.segments] == ["a"]
    assert [fact.id for fact in facts_found.facts] == ["f"]
    assert (segments_found.missing_ids, facts_found.missing_ids) == (("z",), ("y",))


def test_erasure_is_verified_by_every_empty_store(
    client: Client, fake_service: FakeService
) -> None:
    gone = {"store": "postgres", "verified": True}
    unasked = {"store": "graph", "reason": "unreachable"}
    fake_service.will_answer("Forget", {"receipts": [gone]}, {"receipts": [gone, unasked]})

    assert client.forget(speaker="Nora").verified
    assert not client.forget(segment_ids=["a"]).verified


def test_counts_that_the_service_does_not_know_are_none(
    client: Client, fake_service: FakeService
) -> None:
    fake_service.will_answer("GetStats", {"tenant": {}}, {})  # without the graph, and in no time

    counts = client.stats().tenant

    assert counts is not None
    assert counts.entity_count is None
    assert client.stats().tenant is None


@pytest.mark.parametrize("health", [Health.SERVING, Health.NOT_SERVING])
def test_health_is_read_without_the_stubs_of_the_health_service(
    client: Client, fake_service: FakeService, health: Health
) -> None:
    status = health_pb2.HealthCheckResponse.ServingStatus.Value(health.name)
    fake_service.health.set("trivium", status)

    assert client.check("trivium") is health


def test_metadata_goes_along_with_every_call(fake_service: FakeService) -> None:
    metadata = [("authorization", "Bearer abc")]

    with Client(fake_service.address, tenant="acme", metadata=metadata) as client:
        client.stats()
        client.ingest_stream([])

    assert [sent["authorization"] for sent in fake_service.metadata] == ["Bearer abc"] * 2


def test_client_of_another_tenant_shares_the_connection(
    client: Client, fake_service: FakeService
) -> None:
    client.for_tenant("other").stats()
    client.stats()

    assert [request.tenant for request in fake_service.requests] == ["other", "acme"]


def test_connecting_returns_only_to_a_service(client: Client) -> None:
    client.connect()

    with Client("127.0.0.1:1", tenant="acme") as nobody, pytest.raises(UnavailableError):
        nobody.connect(timeout=0.05)


def about(seconds: float) -> object:
    """Within a tenth: gRPC rounds long deadlines, and the way to the server takes its time."""
    return pytest.approx(seconds, rel=0.1)


# ---------------------------------------------------------------- asyncio


def test_clients_have_the_same_methods_and_arguments() -> None:
    def signatures(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_") or name == "__init__"
        }

    assert signatures(AsyncClient) == signatures(Client)


def test_client_made_without_an_event_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="make it in a coroutine"):
        AsyncClient("127.0.0.1:1", tenant="acme")


async def test_stream_takes_an_async_iterable(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    fake_service.will_answer("IngestStream", {"created_count": 3})
    progress: list[int] = []

    async def turns() -> AsyncIterator[Segment]:
        for place in range(3):
            yield Segment(id=str(place), text="hi")

    result = await async_client.ingest_stream(turns(), progress=progress.append)

    (message,) = fake_service.request()
    assert [item.segment.id for item in message.items] == ["0", "1", "2"]
    assert (result.created_count, progress) == (3, [3])


async def test_transcript_is_a_request_with_its_own_budget(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    answer = {"retrieved": {"briefing": "<memory></memory>"}, "request_number": 2, "final": True}
    fake_service.will_answer("RetrieveStream", answer)
    said = [Transcript("when is"), Transcript("when is it?", final=True)]

    answers = async_client.retrieve_stream(said, timeout=10, profile="annie")

    (found,) = [each async for each in answers]
    assert found.retrieval.briefing == "<memory></memory>"
    assert (found.transcript_number, found.final) == (2, True)
    sent = fake_service.request()
    texts = [(each.retrieve.query, each.final) for each in sent]
    assert texts == [("when is", False), ("when is it?", True)]
    assert {each.retrieve.profile for each in sent} == {"annie"}
    assert {each.retrieve.time_budget.ToTimedelta() for each in sent} == {timedelta(seconds=9)}


async def test_errors_of_transcript_and_stream_are_raised(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    with pytest.raises(ValueError, match="lone surrogate"):
        [each async for each in async_client.retrieve_stream([Transcript("\ud800")])]

    fake_service.will_answer("RetrieveStream", Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "full"))
    with pytest.raises(OverloadedError):
        [each async for each in async_client.retrieve_stream([Transcript("?", final=True)])]


async def test_cold_parts_are_reported(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    lost = {"part": "graph", "reason": "graph: refused"}
    fake_service.will_answer("Warm", {"parts": [{"part": "names", "warm": True}, lost]})

    parts = await async_client.warm(profile="annie", timeout=10)

    told = [(each.part, each.warm, each.reason) for each in parts]
    assert told == [("names", True, ""), ("graph", False, "graph: refused")]
    assert fake_service.request().profile == "annie"
    assert fake_service.request().time_budget.ToTimedelta() == timedelta(seconds=9)


@pytest.mark.parametrize(("given", "sent"), [("", "Europe/Lisbon"), ("Asia/Tokyo", "Asia/Tokyo")])
async def test_write_has_time_zone_of_call_or_client(
    fake_service: FakeService, given: str, sent: str
) -> None:
    async with AsyncClient(
        fake_service.address, tenant="acme", time_zone="Europe/Lisbon"
    ) as client:
        await client.ingest([Segment(id="a", text="hi")], time_zone=given)

    assert fake_service.request().time_zone == sent


async def test_reading_and_writing_calls_reach_the_service(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    await async_client.connect()
    await async_client.ingest([Segment(id="a", text="hi")])
    await async_client.get_segments(["a"])
    await async_client.stats()
    await async_client.for_tenant("other").forget(everything=True)

    names = [type(request).__name__ for request in fake_service.requests]
    tenants = [request.tenant for request in fake_service.requests]
    assert names == ["IngestRequest", "GetSegmentsRequest", "GetStatsRequest", "ForgetRequest"]
    assert tenants == ["acme", "acme", "acme", "other"]


# ---------------------------------------------------------------- imports


ALLOWED = ("grpc", "google", "trivium", "typing_extensions")

PROBE = f"""
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        # The standard library has one more, which is named after the platform.
        standard = top in sys.stdlib_module_names or top.startswith("_sysconfigdata_")
        if not standard and top not in {ALLOWED!r}:
            raise ModuleNotFoundError(f"{{name}} is refused", name=name)

sys.meta_path.insert(0, Refuse())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROBE + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_client_imports_nothing_but_grpc_and_protobuf() -> None:
    modules = "trivium, trivium.files.reading, trivium.aio"
    done = run(f"import {modules}; print(len(trivium.__all__))")

    assert (done.returncode, done.stderr) == (0, "")


def test_command_line_without_extra_names_its_installation() -> None:
    done = run("from trivium.cli import main; main()")

    assert done.returncode == 2
    assert "install trivium-client[cli]" in done.stderr
    assert "Traceback" not in done.stderr
