"""The command `make bench-peers`: the service and other libraries, on one machine, in turns.

Every system has the same texts, questions and encoder. The peers run in this process, without a
network; the service is asked over gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection
from bench.harness.connections import MAX_CONNECTIONS, connected
from bench.harness.options import HELP, chosen, data_option, out_option
from bench.harness.results import Take
from bench.harness.service import fresh_data, started
from bench.harness.writing import store
from bench.peers.bm25_numpy import Bm25Numpy
from bench.peers.graph_memory import graph_memory
from bench.peers.lance import Lance
from bench.peers.passages import facts_of, passages_of
from bench.peers.peer import Peer
from bench.peers.qdrant import QdrantEdge
from bench.peers.tables import save_picture, summary
from bench.peers.turns import System, in_process, recall, served, take_turns
from bench.reports.recording import console, recorded
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.telemetry import NoRecorder


@click.command(context_settings=HELP)
@data_option
@click.option("--turns", type=click.IntRange(min=1), default=3, show_default=True)
@click.option(
    "--calls", type=click.IntRange(min=1), default=500, show_default=True, help="Of each load."
)
@out_option
def main(data: Path | None, turns: int, calls: int, out: Path) -> None:
    """Measure the service and its peers, and write JSON, a table and a plot."""
    collection = chosen(data)
    with recorded("peers", collection, out, summary, save_picture) as take:
        asyncio.run(_measure(collection, turns, calls, take))


async def _measure(collection: Collection, turns: int, calls: int, take: Take) -> None:
    async with _systems(collection) as systems:
        for system in systems:
            console.print(f"judging the answers of {system.name}")
            take(await recall(system, collection.judged))
        async for result in take_turns(systems, collection.queries, turns=turns, calls=calls):
            take(result)


@contextlib.asynccontextmanager
async def _systems(collection: Collection) -> AsyncIterator[Sequence[System]]:
    """Starts the service, and fills all systems."""
    async with contextlib.AsyncExitStack() as stack:
        console.print("starting the service")
        data_dir = stack.enter_context(fresh_data())
        target = await stack.enter_async_context(started(data_dir))
        connections = await stack.enter_async_context(connected(target.address, MAX_CONNECTIONS))
        console.print("writing to the service")
        await store(connections, collection)
        embedder = await stack.enter_async_context(open_embedder(load_settings(), NoRecorder()))
        console.print("embedding the passages for the peers")
        memories = await passages_of(collection, embedder)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trb-")))
        peers = _peers(folder, stack)
        if facts := await facts_of(collection, embedder):
            graph = graph_memory(folder / "neo4j", load_settings().cache_dir, facts)
            peers.append(await stack.enter_async_context(graph))
        for peer in peers:
            await peer.fill(memories)
        yield [served(connections, target.pid), *(in_process(peer, embedder) for peer in peers)]


def _peers(folder: Path, stack: contextlib.AsyncExitStack) -> list[Peer]:
    for name in ("qdrant", "lance"):
        (folder / name).mkdir()
    qdrant = QdrantEdge(folder / "qdrant")
    stack.callback(qdrant.close)
    return [Bm25Numpy(), qdrant, Lance(folder / "lance")]


if __name__ == "__main__":
    main()
