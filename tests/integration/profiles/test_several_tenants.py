"""Several tenants in one question, through the service over real stores."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.fakes.meaning import FakeEmbedder
from tests.fixtures.local_service import answered, local_service
from tests.fixtures.postgres import fresh_database
from trivium import AsyncClient, BriefingOptions, Fact, LegState, Segment, Transcript
from trivium.errors import InvalidRequestError

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]

QUESTION = "Where is the key of the boat?"
TENANTS = {"mine": 1.0, "family": 1.5, "empty": 1.0}


@pytest.fixture(scope="module")
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture(scope="module")
async def memory(
    postgres_server: str, neo4j_uri: str, embedder: FakeEmbedder
) -> AsyncIterator[AsyncClient]:
    """A client whose own tenant has nothing, next to `mine` and `family`, which every leg has."""
    with fresh_database(postgres_server) as dsn:
        async with local_service(dsn, neo4j_uri, embedder=embedder) as client:
            for tenant, place in (("mine", "drawer"), ("family", "shed")):
                of_tenant = client.for_tenant(tenant)
                written = await of_tenant.ingest(
                    [
                        Segment(id="key", text=f"The key of the boat is in the {place}."),
                        Segment(id="other", text=f"Dinner of {tenant} was late."),
                        Fact(
                            id="f", subject="key", relation="is in", object=place, evidence=["key"]
                        ),
                    ]
                )
                await answered(of_tenant, "Where is everything?", written.consistency_token)
            yield client


async def test_hits_of_several_tenants_are_one_list(
    memory: AsyncClient, embedder: FakeEmbedder
) -> None:
    asked = "Where could the key of the boat be?"

    found = await memory.retrieve(asked, tenants=TENANTS, explain=True, timeout=30)

    scores = [hit.score for hit in found.hits]
    assert [(hit.tenant, hit.id) for hit in found.hits[:2]] == [("family", "key"), ("mine", "key")]
    assert "shed" in found.hits[0].text
    assert scores == sorted(scores, reverse=True)
    for hit in found.hits:
        assert hit.ledger is not None
        assert hit.ledger.tenant_weight == TENANTS[hit.tenant]
        assert math.isclose(hit.ledger.recompute(), hit.score)
    assert embedder.queries.count(asked) == 1


async def test_reports_name_the_tenant_of_each_leg(memory: AsyncClient) -> None:
    found = await memory.retrieve(QUESTION, tenants=TENANTS, timeout=30)

    legs = [report.leg for report in found.leg_reports if report.tenant == "mine"]
    assert [report.tenant for report in found.leg_reports] == [
        tenant for tenant in TENANTS for _ in legs
    ]
    assert LegState.FAILED not in {report.state for report in found.leg_reports}


async def test_block_of_several_tenants_is_one(memory: AsyncClient) -> None:
    found = await memory.retrieve(QUESTION, tenants=TENANTS, briefing=BriefingOptions(), timeout=30)

    assert found.briefing.count("<memory>") == 1
    assert "drawer" in found.briefing
    assert "shed" in found.briefing


async def test_token_of_one_write_holds_for_every_tenant(memory: AsyncClient) -> None:
    late = memory.for_tenant("late")
    written = await late.ingest([Segment(id="new", text="The key of the boat.")])

    found = await answered_by_all(memory, ["mine", "late"], written.consistency_token)

    assert ("late", "new") in found


async def answered_by_all(
    memory: AsyncClient, tenants: Sequence[str], token: str
) -> set[tuple[str, str]]:
    """What tenants have once each leg has seen a write."""
    while True:
        found = await memory.retrieve(
            QUESTION, tenants=tenants, consistency_token=token, timeout=30
        )
        if found.complete:
            return {(hit.tenant, hit.id) for hit in found.hits}


async def test_stream_asks_several_tenants(memory: AsyncClient) -> None:
    transcripts = [Transcript(QUESTION, final=True)]
    streamed = memory.retrieve_stream(transcripts, tenants=["mine", "family"], timeout=30)
    answers = [answer async for answer in streamed]

    assert {hit.tenant for hit in answers[-1].retrieval.hits} == {"mine", "family"}


async def test_comparison_and_absence_are_of_one_tenant(memory: AsyncClient) -> None:
    with pytest.raises(InvalidRequestError, match=r"retrieve\.tenants: must be empty"):
        await memory.compare(QUESTION, against="facts", tenants=TENANTS)
    with pytest.raises(InvalidRequestError, match=r"retrieve\.tenants: must be empty"):
        await memory.explain_absence(QUESTION, segment_id="key", tenants=TENANTS)
