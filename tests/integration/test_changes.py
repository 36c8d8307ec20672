"""Streams of changes, and programs of pages, by the service over a real PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import runpy
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import cycle
from pathlib import Path

import pytest

from tests.fixtures.local_service import TENANT, local_address
from tests.fixtures.neo4j import leaves_sockets
from tests.support.tracked_files import ROOT
from tests.support.waiting import until_async
from trivium import AsyncClient, ChangeKind, Fact, ItemKind, Segment

pytestmark = pytest.mark.postgres


NO_GRAPH = "bolt://127.0.0.1:1"
ITEMS, WRITERS = 60, 3


@pytest.fixture
async def address(postgres_dsn: str) -> AsyncIterator[str]:
    async with local_address(postgres_dsn, NO_GRAPH) as address:
        yield address


@pytest.fixture
async def memory(address: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(address, tenant=TENANT) as memory:
        yield memory


async def written(memory: AsyncClient, writer: int) -> None:
    """Writes items one by one, or a few at once."""
    ids = [f"{writer}-{number}" for number in range(ITEMS)]
    while ids:
        some, ids = ids[: 1 + len(ids) % 3], ids[1 + len(ids) % 3 :]
        await memory.ingest([Segment(id=id_, text=f"Remark {id_}.") for id_ in some])


@leaves_sockets
async def test_killed_stream_loses_and_repeats_nothing(memory: AsyncClient) -> None:
    stream = memory.watch_changes()
    token = (await anext(stream)).token
    await stream.aclose()  # type: ignore[attr-defined]
    writing = asyncio.gather(*(written(memory, writer) for writer in range(WRITERS)))
    seen: Counter[str] = Counter()

    for kept in cycle([1, 2, 7, 3]):
        # It takes some of the changes of a response, and is cut off.
        stream = memory.watch_changes(token, batch_size=5)
        async with contextlib.aclosing(stream):  # type: ignore[type-var]
            async for read in stream:
                taken = read.changes[:kept]
                seen.update(each.item.id for each in taken)
                token = read.token if len(taken) == len(read.changes) else taken[-1].token
                if taken:
                    break
        if len(seen) == WRITERS * ITEMS:
            break

    await writing
    assert set(seen.values()) == {1}


@leaves_sockets
async def test_item_erased_and_rewritten_comes_once(memory: AsyncClient) -> None:
    sailed = Segment(id="a", text="We sailed.")
    stored = await memory.ingest([sailed, Fact(id="a", subject="x", relation="y", object="z")])
    await memory.forget(segment_ids=["a"], fact_ids=["a"])
    await memory.ingest([sailed])

    read = await anext(memory.watch_changes(stored.consistency_token))

    assert {(each.item.kind, each.change) for each in read.changes} == {
        (ItemKind.FACT, ChangeKind.ERASED),
        (ItemKind.SEGMENT, ChangeKind.STORED),
    }
    assert len(read.changes) == 2


# ---------------------------------------------------------------- the webhook of the page


class Hook(BaseHTTPRequestHandler):
    """Keeps what is posted."""

    posted: Counter[tuple[str, str, str]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.posted.update((each["id"], each["kind"], each["change"]) for each in json.loads(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def hook() -> Iterator[HTTPServer]:
    Hook.posted = Counter()
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


@contextlib.asynccontextmanager
async def following(address: str, hook: HTTPServer, folder: Path) -> AsyncIterator[None]:
    """Runs the program of the page, and kills it."""
    page = (ROOT / "docs/changes.md").read_text()
    [code] = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(code.splitlines()) <= 45
    (folder / "follow.py").write_text(
        code.replace("127.0.0.1:9000", address)
        .replace("127.0.0.1:8080", f"127.0.0.1:{hook.server_port}")
        .replace('"us"', f'"{TENANT}"')
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "follow.py", cwd=folder)
    try:
        yield
    finally:
        process.kill()
        await process.wait()


@leaves_sockets
async def test_webhook_of_the_page_gets_each_change(
    address: str, memory: AsyncClient, hook: HTTPServer, tmp_path: Path
) -> None:
    token = tmp_path / "changes.token"

    def posted(*ids: str, change: str = "stored") -> bool:
        return all(Hook.posted[id_, "segment", change] for id_ in ids)

    async with following(address, hook, tmp_path):
        await until_async(token.exists)
        await memory.ingest([Segment(id="a", text="We sailed."), Segment(id="b", text="Hello.")])
        await until_async(lambda: posted("a", "b"))
    await memory.ingest([Segment(id="c", text="We are back.")])
    await memory.forget(segment_ids=["a"])
    async with following(address, hook, tmp_path):
        await until_async(lambda: posted("c") and posted("a", change="erased"))

    assert Hook.posted["c", "segment", "stored"] == 1


EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n+```text\n(?P<output>.*?)^```", re.M | re.S)
PAGES = ["docs/describe.md"]
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
