"""Items that expire: asked of the whole service, over the real stores."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from serving.composition.index import SpaceParts
from serving.composition.service import running_service
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName, fact_id, segment_id
from serving.pipeline.writes.expiry import Sweeper
from serving.rpc.use_cases import UseCases
from tests.fakes.meaning import FakeEmbedder
from tests.fixtures.local_service import TENANT, answered, listening
from trivium import AsyncClient, Fact, Segment

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.timeout(240)]

PAGE = Path(__file__).parents[2] / "docs/lifetime.md"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n\n```text\n(?P<output>.*?)^```", re.M | re.S)
NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=1)
ASKED = "Where does Nora sail?"
ABOUT_GOA = "What about Goa?"
"""Its graph walk reaches what is left over the expired facts alone."""

GONE = Segment(id="gone", text="Nora sails to Goa.", entities=("Nora", "Goa"), expires_at=LATER)
HIDDEN = Segment(id="hidden", text="Nora sails to Goa, she says.", sensitive=True, expires_at=LATER)
KEPT = Segment(id="kept", text="Nora sails to Rome.", entities=("Nora", "Rome"))
SAILS = Fact(
    id="sails",
    subject="Nora",
    relation="sails to",
    object="Goa",
    evidence=("gone", "kept"),
    expires_at=LATER,
)
RESTS = Fact(id="rests", subject="Nora", relation="likes", object="Goa", evidence=("gone",))
TEMPORARY = [segment_id("gone"), segment_id("hidden"), fact_id("sails"), fact_id("rests")]


@dataclass(frozen=True)
class Running:
    """A service with its use cases, and a client of it."""

    address: str
    client: AsyncClient
    use_cases: UseCases

    async def sweep(self, now: datetime) -> None:
        """Erases what has expired by a time."""
        await Sweeper(self.use_cases.store, self.use_cases.eraser, lambda: now).sweep()


@pytest.fixture(params=[0, 2**30], ids=["stores", "memory"])
async def running(
    request: pytest.FixtureRequest, postgres_dsn: str, neo4j_uri: str
) -> AsyncIterator[Running]:
    settings = load_settings(
        {
            "postgres": {"dsn": postgres_dsn},
            "neo4j": {"uri": neo4j_uri},
            "memory": {"view_bytes": request.param},
            "retention": {"lifetimes": {"*": {"chitchat": "P30D"}}},
        }
    )
    async with (
        running_service(settings, space=SpaceParts(FakeEmbedder(), None), warm_up_s=1) as service,
        listening(service) as address,
        AsyncClient(address, tenant=TENANT, timeout=10) as client,
    ):
        yield Running(address, client, service.use_cases)


async def test_expired_items_are_in_no_answer_of_a_profile(running: Running) -> None:
    memory = running.client
    token = (await memory.ingest([GONE, HIDDEN, KEPT, SAILS, RESTS])).consistency_token
    await answered(memory, ASKED, token)
    before, after = set[str](), set[str]()

    async for profile in memory.list_profiles():
        for question, as_of in product((ASKED, ABOUT_GOA), (None, LATER)):
            found = await memory.retrieve(
                question, profile=profile.name, as_of=as_of, explain=True, timeout=10
            )
            shown = after if as_of else before
            shown |= {item.id for hit in found.hits for item in (hit.item, *hit.folded)}
            ledgers = [term for hit in found.hits if hit.ledger for term in hit.ledger.leg_terms]
            if as_of:
                assert not {id_ for term in ledgers for id_ in term.fact_ids}
                assert "Goa" not in " ".join(term.path for term in ledgers)

    assert before == {"gone", "hidden", "kept", "sails", "rests"}
    assert after == {"kept"}


async def test_sweep_erases_expired_items_from_every_store(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    token = (await running.client.ingest([GONE, HIDDEN, KEPT, SAILS, RESTS])).consistency_token
    await answered(running.client, ASKED, token)

    with caplog.at_level(logging.INFO, "serving.pipeline.writes.expiry"):
        await running.sweep(LATER)
        await running.sweep(LATER)

    [record] = [each for each in caplog.records if each.message == "expired items erased"]
    said = {name: getattr(record, name) for name in ("segments", "facts", "remaining")}
    assert said == {"segments": 2, "facts": 2, "remaining": 0}
    assert record.unverified == []  # type: ignore[attr-defined]
    left = await running.use_cases.store.load(
        TenantName(TENANT), [*TEMPORARY, segment_id("kept")], Deadline.after(60)
    )
    assert list(left) == [segment_id("kept")]


async def test_kind_has_the_lifetime_of_its_setting(running: Running) -> None:
    said = Segment(id="hi", text="Hello!", kind="chitchat", event_time=NOW - timedelta(days=400))

    await running.client.ingest([said])

    [stored] = (await running.client.get_segments(["hi"])).segments
    assert stored.expires_at is not None
    assert stored.expires_at > NOW + timedelta(days=30)


async def test_commands_of_the_page_print_its_output(running: Running) -> None:
    blocks = list(BLOCK.finditer(PAGE.read_text()))
    assert blocks

    for block in blocks:
        code = block["code"].replace("127.0.0.1:9000", running.address)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            await asyncio.to_thread(exec, code, {})
        assert printed.getvalue() == block["output"]
