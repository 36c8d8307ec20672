"""No request of one tenant shows, changes or counts anything of another one.

The other tenant's items have a word that no request contains, in every field. Requests name its
ids, names nearly as it writes them, its tenant and its tokens.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.fixtures.local_service import TENANT, answered, local_service
from tests.security.edge import METHODS
from tests.security.hostile import Hostility
from trivium import Fact, Segment
from trivium.aio import AsyncClient
from trivium.values import Item

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.timeout(600)]

REQUESTS = 30
"""Of each method."""

CANARY = "Quixolanterne"
NEARLY = "Quixolantern"
QUESTION = "Where does Mara sail?"

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
    Segment(id="shared", text=f"Mara sails from {CANARY}.", speaker="Mara"),
    Fact(id=THEIR_FACT, subject="Mara", relation="sails to", object=CANARY, evidence=(THEIR_ID,)),
]
MINE: list[Item] = [
    Segment(id="shared", text="Mara sails to Goa.", speaker="Mara", entities=("Mara", "Goa")),
    Fact(id="mine", subject="Mara", relation="sails to", object="Goa", evidence=("shared",)),
]


@dataclass(frozen=True)
class Two:
    """A service with two tenants, and a token of the other one's writes."""

    mine: AsyncClient
    theirs: AsyncClient
    channel: grpc.aio.Channel
    their_token: str

    async def send(self, method: MethodDescriptor, request: Message) -> list[Message | str]:
        """The responses, or the message of the error."""
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
        given: Any = iter([request]) if method.client_streaming else request
        try:
            if method.server_streaming:
                return [response async for response in call(given, timeout=10)]
            return [await call(given, timeout=10)]
        except grpc.aio.AioRpcError as error:
            return [f"{error.code().name}: {error.details()} {error.trailing_metadata()}"]

    async def items_of_theirs(self) -> list[object]:
        segments = [found async for found in self.theirs.list_segments()]
        facts = [found async for found in self.theirs.list_facts()]
        return [*segments, *facts]


@pytest.fixture
async def two(postgres_dsn: str, neo4j_uri: str) -> AsyncIterator[Two]:
    async with local_service(postgres_dsn, neo4j_uri) as mine:
        theirs = mine.for_tenant("other")
        their_token = (await theirs.ingest(THEIRS)).consistency_token
        token = (await mine.ingest(MINE)).consistency_token
        await answered(theirs, QUESTION, their_token)
        await answered(mine, QUESTION, token)
        yield Two(mine, theirs, mine._channel, their_token)


async def test_the_canary_is_found_by_its_own_tenant(two: Two) -> None:
    answer = await two.theirs.retrieve(QUESTION, explain=True)

    assert CANARY in str(answer)


async def test_no_request_of_another_tenant_meets_the_canary(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    before = await two.items_of_theirs()
    texts = (
        *("other", "shared", THEIR_ID, THEIR_FACT, two.their_token, NEARLY, "Mara", "sails to"),
        *(QUESTION, f"Who sails to {NEARLY}?", "place", "default", "lexical", "graph", ""),
    )
    overrides = {"query": QUESTION, "id": "shared", "text": "Mara sails."}
    seen: Counter[str] = Counter()
    for method in METHODS.values():
        hostility = Hostility(11, overrides, texts)
        for _ in range(REQUESTS):
            request: Any = hostility.message(method.input_type)
            if "tenant" in method.input_type.fields_by_name:
                request.tenant = TENANT
            for response in await two.send(method, request):
                assert CANARY not in str(response), (method.name, request)
                seen["answers" if isinstance(response, Message) else "errors"] += 1

    assert min(seen["answers"], seen["errors"]) > 50
    assert CANARY not in caplog.text
    assert await two.items_of_theirs() == before


async def test_counts_are_of_one_tenant(two: Two) -> None:
    mine, theirs = await asyncio.gather(two.mine.stats(), two.theirs.stats())

    assert mine.tenant is not None
    assert theirs.tenant is not None
    assert (mine.tenant.segment_count, mine.tenant.fact_count) == (1, 1)
    assert (theirs.tenant.segment_count, theirs.tenant.fact_count) == (2, 1)
