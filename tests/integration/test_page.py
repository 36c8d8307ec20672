"""The page `/ui` in a browser, over a service that answers with hostile texts."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from serving.domain.errors import StoreUnavailableError
from tests.support.http_server import served
from tests.unit.http.requesting import FakeRpcs
from trivium.v1 import admin_service_pb2 as admin_pb
from trivium.v1 import catalog_service_pb2 as catalog_pb
from trivium.v1 import segment_pb2

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
SECRET = "The code of the safe"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (Debian: chromium)")


async def page(address: str, view: str) -> str:
    assert CHROMIUM is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *options,
        "--dump-dom",
        f"http://{address}/ui?tenant=acme#{view}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    written, _ = await process.communicate()
    return written.decode()


def assert_inert(shown: str) -> None:
    assert "&lt;img src=x onerror=" in shown
    assert "<img" not in shown
    assert "<title>Trivium</title>" in shown


async def test_hostile_texts_are_inert_and_sensitive_unsent() -> None:
    segments = [
        segment_pb2.Segment(id="s1", text=HOSTILE, speaker=HOSTILE, session=HOSTILE),
        segment_pb2.Segment(id="s2", text=SECRET, sensitive=True),
    ]
    stored = FakeRpcs(catalog_pb.ListSegmentsResponse(segments=segments))

    async with served(stored, ui=True) as address:
        shown = await page(address, "memory")

    assert_inert(shown)
    assert "show sensitive text" in shown
    assert SECRET not in shown


ADMINISTERED = {
    "tenants": admin_pb.ListTenantsResponse(
        tenants=[admin_pb.Tenant(name=HOSTILE, text_search_config=HOSTILE, time_zone=HOSTILE)]
    ),
    "keys": admin_pb.ListKeysResponse(
        accepted=True, keys=[admin_pb.ApiKey(id=HOSTILE, tenant=HOSTILE, note=HOSTILE)]
    ),
    "audit": admin_pb.ListAuditEntriesResponse(
        entries=[
            admin_pb.AuditEntry(
                at={"seconds": 1}, caller=HOSTILE, rpc=HOSTILE, tenant=HOSTILE, key_id=HOSTILE
            )
        ]
    ),
}


@pytest.mark.parametrize("view", ADMINISTERED)
async def test_hostile_names_of_tenants_and_keys_are_inert(view: str) -> None:
    async with served(FakeRpcs(ADMINISTERED[view]), ui=True) as address:
        shown = await page(address, view)

    assert_inert(shown)


async def test_page_reports_service_that_is_down() -> None:
    gone = FakeRpcs(error=StoreUnavailableError("PostgreSQL is gone"))
    async with served(gone, ui=True) as address:
        shown = await page(address, "service")

    assert 'class="failure"' in shown
    assert "unavailable" in shown
