"""No request of one tenant shows, changes or counts anything of another one.

The other tenant's items have a word that no request contains, in every field. Requests name its
ids, names nearly as it writes them, its tenant and its tokens, and repeat its questions, so that
they meet whatever is cached of its answers. A part of them is hostile throughout and mostly
rejected; the others differ by a field or two from a request that is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import grpc.aio
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from serving.domain.identity import Caller
from serving.domain.items.records import TenantName
from serving.rpc.identity.authenticator import hide_from
from serving.rpc.identity.rules import RULES
from serving.rpc.registration import METHODS
from tests.fixtures.local_service import FOLLOW_WITHIN_S, TENANT, answered, local_service
from tests.security.hostile import Hostility
from trivium import Fact, Segment
from trivium.aio import AsyncClient
from trivium.v1 import admin_service_pb2 as admin
from trivium.v1 import catalog_service_pb2 as catalog
from trivium.v1 import fact_pb2, item_pb2, retrieval_service_pb2, segment_pb2
from trivium.v1 import ingest_service_pb2 as writes
from trivium.values import Item

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.neo4j,
    pytest.mark.timeout(600),
    # Neo4j's driver leaves a socket to the collector if a leg is cancelled while it connects.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

HOSTILE, VARIED = 20, 30
"""Requests of each method."""
ANSWERED = 10
"""Of the varied ones, at least."""

CANARY = "Quixolanterne"
NEARLY = "Quixolantern"
QUESTION = "Where does Mara sail?"
MISSPELT = f"Who sails to {NEARLY}?"

THEIR_ID, THEIR_FACT = "their-segment", "their-fact"
THEIRS: list[Item] = [
    Segment(
        id=THEIR_ID,
        text=f"Mara sails to {CANARY} tomorrow.",
        title=f"About {CANARY}",
        speaker=CANARY,
        session=f"on {CANARY}",
        labels={"place": CANARY},
        entities=("Mara", CANARY),
        entity=CANARY,
        keywords=(CANARY,),
    ),
    Segment(id=f"id-{CANARY}", text=f"Mara sails to Goa by {CANARY}.", speaker="Mara"),
    Segment(id="shared", text=f"Mara sails from {CANARY}.", speaker="Mara"),
    Fact(id=THEIR_FACT, subject="Mara", relation="sails to", object=CANARY, evidence=(THEIR_ID,)),
]
MINE: list[Item] = [
    Segment(id="shared", text="Mara sails to Goa.", speaker="Mara", entities=("Mara", "Goa")),
    Fact(id="mine", subject="Mara", relation="sails to", object="Goa", evidence=("shared",)),
]


def asking(query: str = QUESTION) -> retrieval_service_pb2.RetrieveRequest:
    return retrieval_service_pb2.RetrieveRequest(
        tenant=TENANT,
        query=query,
        explain=True,
        briefing=retrieval_service_pb2.BriefingOptions(),
        seed_ids=[THEIR_ID, "shared"],
        time_budget=Duration(seconds=8),
    )


def writing() -> Sequence[writes.IngestItem]:
    """Items with the ids of the other tenant's."""
    said = segment_pb2.Segment(id=THEIR_ID, text="Mara sails to Goa again.", speaker="Mara")
    told = fact_pb2.Fact(
        id=THEIR_FACT, subject="Mara", relation="sails to", object="Goa", evidence=[THEIR_ID]
    )
    return [writes.IngestItem(segment=said), writes.IngestItem(fact=told)]


def about_theirs() -> item_pb2.ItemRef:
    return item_pb2.ItemRef(segment_id=THEIR_ID)


READS: Mapping[str, Message] = {
    "Retrieve": asking(),
    "RetrieveBatch": retrieval_service_pb2.RetrieveBatchRequest(
        tenant=TENANT, requests=[asking(), asking(MISSPELT)]
    ),
    "RetrieveStream": retrieval_service_pb2.RetrieveStreamRequest(
        retrieve=asking(MISSPELT), final=True
    ),
    "DescribeEntity": retrieval_service_pb2.DescribeEntityRequest(tenant=TENANT, speaker="Mara"),
    "Warm": retrieval_service_pb2.WarmRequest(tenant=TENANT),
    "ListProfiles": retrieval_service_pb2.ListProfilesRequest(),
    "Compare": retrieval_service_pb2.CompareRequest(retrieve=asking(), against="facts"),
    "ExplainAbsence": retrieval_service_pb2.ExplainAbsenceRequest(
        retrieve=asking(), item=about_theirs()
    ),
    "GetSegments": catalog.GetSegmentsRequest(tenant=TENANT, ids=[THEIR_ID, "shared"]),
    "GetFacts": catalog.GetFactsRequest(tenant=TENANT, ids=[THEIR_FACT, "shared"]),
    "ListSegments": catalog.ListSegmentsRequest(tenant=TENANT),
    "ListFacts": catalog.ListFactsRequest(tenant=TENANT),
    "WatchChanges": catalog.WatchChangesRequest(tenant=TENANT),
    "GetStats": catalog.GetStatsRequest(tenant=TENANT),
    "ListAuditEntries": admin.ListAuditEntriesRequest(tenant=TENANT),
}
ANSWERABLE: Mapping[str, Message] = {
    **READS,
    "Ingest": writes.IngestRequest(tenant=TENANT, items=writing()),
    "IngestStream": writes.IngestStreamRequest(tenant=TENANT, items=writing()),
    "Patch": writes.PatchRequest(
        tenant=TENANT, item=item_pb2.ItemRef(segment_id="shared"), title="Sailing"
    ),
    "Forget": writes.ForgetRequest(
        tenant=TENANT, ids=writes.ItemIds(segment_ids=[THEIR_ID], fact_ids=[THEIR_FACT])
    ),
    "ListTenants": admin.ListTenantsRequest(),
    "ListKeys": admin.ListKeysRequest(),
    "CreateKey": admin.CreateKeyRequest(roles=[admin.ROLE_READER], tenant=TENANT),
    "RevokeKey": admin.RevokeKeyRequest(id="0" * 16),
}
"""A request of each method that is answered."""
TEXTS = (
    *("other", "shared", THEIR_ID, THEIR_FACT, NEARLY, "Mara", "sails to"),
    *(QUESTION, MISSPELT, "place", "default", "lexical", "graph", ""),
)


def of_mine(request: Any) -> Any:
    """The request, in the name of this tenant: the service has no authentication here."""
    named = request.retrieve if "retrieve" in request.DESCRIPTOR.fields_by_name else request
    if "tenant" in named.DESCRIPTOR.fields_by_name:
        named.tenant = TENANT
    for each in (*getattr(named, "tenants", ()), *getattr(request, "requests", ())):
        each.tenant = TENANT
    return request


def requests(method: MethodDescriptor, their_token: str) -> Iterator[Any]:
    """Requests of this tenant: hostile ones, and such as differ from one that is answered."""
    hostility = Hostility(11, {"query": QUESTION, "id": "shared"}, (*TEXTS, their_token))
    for _ in range(HOSTILE):
        yield of_mine(hostility.message(method.input_type))
    for place in range(VARIED):
        request: Any = GetMessageClass(method.input_type)()
        request.CopyFrom(ANSWERABLE[method.name])
        for _ in range(place % 3):
            hostility.vary(request)
        yield of_mine(request)


def twice(request: Any) -> Sequence[Message]:
    """The messages of a stream: the first is not the final one, after which none is read."""
    first = type(request)()
    first.CopyFrom(request)
    if "final" in request.DESCRIPTOR.fields_by_name:
        first.final = False
    return [first, request]


@dataclass(frozen=True)
class Two:
    """A service with two tenants, and a token of the other one's writes."""

    mine: AsyncClient
    theirs: AsyncClient
    channel: grpc.aio.Channel
    their_token: str

    async def send(self, method: MethodDescriptor, request: Message) -> list[Message | str]:
        """The responses, and the message of the error that ends them."""
        assert method.containing_service is not None, "a method is of a service"
        path = f"/{method.containing_service.full_name}/{method.name}"
        kind = ("stream" if method.client_streaming else "unary") + (
            "_stream" if method.server_streaming else "_unary"
        )
        call = getattr(self.channel, kind)(
            path,
            request_serializer=lambda sent: sent.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        given: Any = iter(twice(request)) if method.client_streaming else request
        received: list[Message | str] = []
        try:
            if method.server_streaming:
                stream = call(given, timeout=10)
                async for response in stream:
                    received.append(response)
                    if not method.client_streaming:
                        stream.cancel()  # it would go on
                        break
            else:
                received.append(await call(given, timeout=10))
        except grpc.aio.AioRpcError as error:
            received.append(f"{error.code().name}: {error.details()} {error.trailing_metadata()}")
        return received

    async def items_of_theirs(self) -> list[object]:
        segments = [found async for found in self.theirs.list_segments()]
        facts = [found async for found in self.theirs.list_facts()]
        return [*segments, *facts]


@pytest.fixture
async def one(postgres_dsn: str, neo4j_uri: str) -> AsyncIterator[Two]:
    """Before the other tenant has anything."""
    async with local_service(postgres_dsn, neo4j_uri) as mine:
        await answered(mine, QUESTION, (await mine.ingest(MINE)).consistency_token)
        yield Two(mine, mine.for_tenant("other"), mine._channel, "")


@pytest.fixture
async def two(one: Two) -> Two:
    token = (await one.theirs.ingest(THEIRS)).consistency_token
    await answered(one.theirs, QUESTION, token)
    await answered(one.mine, QUESTION, token)
    return replace(one, their_token=token)


async def test_the_canary_is_found_by_its_own_tenant(two: Two) -> None:
    for question in (QUESTION, MISSPELT):
        assert CANARY in str(await two.theirs.retrieve(question, explain=True))


async def test_no_request_of_another_tenant_meets_the_canary(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for question in TEXTS:
        if question:
            await two.theirs.retrieve(question, explain=True)
    before = await two.items_of_theirs()
    answers: Counter[str] = Counter()
    errors = 0
    for method in METHODS.values():
        for request in requests(method, two.their_token):
            for response in await two.send(method, request):
                assert CANARY not in str(response), (method.name, request)
                answers[method.name] += isinstance(response, Message)
                errors += not isinstance(response, Message)

    refused = {name for name, rule in RULES.items() if rule.outlasts}
    assert {name for name in METHODS if answers[name] < ANSWERED} == refused
    assert sum(answers[name] for name in refused) == 0
    assert errors > 50
    assert await two.items_of_theirs() == before
    calls = [record for record in caplog.records if record.getMessage() == "call"]
    assert len(calls) > len(METHODS), "what is logged is not seen here"
    assert not [record for record in caplog.records if CANARY in str(vars(record))]


async def test_rows_of_another_tenant_change_no_answer(one: Two) -> None:
    """Nor a score, by the frequency of a word, nor a count."""
    before = await answers_to_reads(one)

    token = (await one.theirs.ingest(THEIRS)).consistency_token
    await answered(one.theirs, QUESTION, token)
    await answered(one.mine, QUESTION, token)

    assert await answers_to_reads(one) == before


async def pending(two: Two) -> int:
    """The rows of this tenant that legs report as not projected, as of about a second ago."""
    [answer] = await two.send(METHODS["Retrieve"], READS["Retrieve"])
    assert isinstance(answer, retrieval_service_pb2.RetrieveResponse), answer
    return sum(report.pending_count for report in answer.leg_reports)


async def answers_to_reads(two: Two) -> dict[str, list[str]]:
    """The answers that a caller of this tenant alone gets, but for what is about time."""
    async with asyncio.timeout(FOLLOW_WITHIN_S):
        while await pending(two):
            pass
    caller = Caller(name="mine", roles=frozenset(), tenants=frozenset({TenantName(TENANT)}))
    found = {}
    for name, request in READS.items():
        answers = await two.send(METHODS[name], request)
        for answer in answers:
            assert isinstance(answer, Message), answer
            hide_from(caller, RULES[name], answer)
            without_times(answer)
        found[name] = [str(answer) for answer in answers]
    return found


def without_times(message: Message) -> None:
    """Clears times, durations and positions in time of a message, and of those within it."""
    for field, value in message.ListFields():
        if field.name == "token":
            message.ClearField(field.name)
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        if field.message_type.full_name.startswith("google.protobuf."):
            message.ClearField(field.name)
        else:
            for each in value if field.is_repeated else [value]:
                without_times(each)


async def test_counts_are_of_one_tenant(two: Two) -> None:
    mine, theirs = await asyncio.gather(two.mine.stats(), two.theirs.stats())

    assert mine.tenant is not None
    assert theirs.tenant is not None
    assert (mine.tenant.segment_count, mine.tenant.fact_count) == (1, 1)
    assert (theirs.tenant.segment_count, theirs.tenant.fact_count) == (3, 1)
