"""The examples of pages, by the service over a real PostgreSQL: each prints what its page shows."""

from __future__ import annotations

import asyncio
import re
import runpy
from pathlib import Path

import pytest

from tests.fixtures.local_service import local_address
from tests.fixtures.neo4j import leaves_sockets
from tests.support.tracked_files import ROOT

pytestmark = pytest.mark.postgres

EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n+```text\n(?P<output>.*?)^```", re.M | re.S)
PAGES = ["docs/describe.md"]
NO_GRAPH = "bolt://127.0.0.1:1"
"""The examples ask PostgreSQL alone."""


@leaves_sockets
@pytest.mark.parametrize("page", PAGES)
async def test_page_example_prints_the_shown_output(
    page: str, postgres_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = [*EXAMPLE.finditer((ROOT / page).read_text())]
    script = tmp_path / "example.py"

    assert examples
    async with local_address(postgres_dsn, NO_GRAPH) as address:
        for example in examples:
            script.write_text(example["code"].replace("127.0.0.1:9000", address))
            await asyncio.to_thread(runpy.run_path, str(script))
            assert capsys.readouterr().out == example["output"]
