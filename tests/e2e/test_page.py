"""The page `/ui` over the service, in a browser: tests/browser has the tests."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.fixtures.service import Service
from tests.support.sample import sample_items
from tests.support.tracked_files import ROOT
from tests.support.waiting import until
from trivium import Fact, Item, Segment

BROWSER_TESTS = ROOT / "tests" / "browser"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TENANT = "the-page"
SECRET = "The code of the safe is 4711"
HOSTILE = 'hostile <script>alert("run")</script><img src=x onerror="alert(1)">'

pytestmark = [
    pytest.mark.release,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (Debian: chromium)"),
    pytest.mark.skipif(
        not (BROWSER_TESTS / "node_modules").is_dir(), reason="`make test-all` installs Playwright"
    ),
]


def items() -> list[Item]:
    """The sample, and what the tests of the browser look for besides."""
    return [
        *sample_items(),
        Segment(id="safe", text=SECRET, session="of-the-safe", sensitive=True),
        Fact(id="safe-fact", subject="Safe", relation="opens by", object=SECRET, sensitive=True),
        Segment(id="gone", text="This will be forgotten.", session="to-forget"),
        Segment(id="hostile", text=HOSTILE, speaker=HOSTILE, session="hostile"),
        Fact(id="hostile-fact", subject=HOSTILE, relation=HOSTILE, object="alert"),
    ]


def test_page_works_in_a_browser(service: Service) -> None:
    with service.client(TENANT) as memory:
        token = memory.ingest_stream(items()).consistency_token
        until(lambda: memory.retrieve("safe", consistency_token=token, timeout=10).complete)

    environment = {
        **os.environ,  # noqa: TID251 - for a child
        "TRIVIUM_HTTP": service.http,
        "TENANT": TENANT,
        "SECRET": SECRET,
        "CHROMIUM": str(CHROMIUM),
    }
    command = ["node", "--test", "--test-concurrency=1", "page.test.mjs"]
    done = subprocess.run(
        command, cwd=BROWSER_TESTS, env=environment, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "# skipped 0" in done.stdout
