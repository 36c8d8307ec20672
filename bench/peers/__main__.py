"""The command `make bench-peers`: the service and other libraries, on one machine, in turns.

Every system has the same texts, questions and encoder. The peers run in this process, without a
network; the service is asked over gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection, read_collection
from bench.harness.connections import MAX_CONNECTIONS, Connections, connected
from bench.harness.results import RESULTS, Result
from bench.harness.sample import multiplied_sample
from bench.harness.service import Target, fresh_data, started
from bench.harness.writing import store
from bench.peers.bm25_numpy import Bm25Numpy
from bench.peers.graph_memory import graph_memory
from bench.peers.lance import Lance
from bench.peers.passages import facts_of, passages_of
from bench.peers.peer import Peer
from bench.peers.qdrant import QdrantEdge
from bench.peers.tables import save_picture, summary
from bench.peers.turns import CALLERS, System, in_process, recall, served, take_turns
from bench.reports.progress import progress_bars
from bench.reports.recording import console, recorded
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.telemetry import NoRecorder


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An evaluation set; without, the sample conversation multiplied.",
)
@click.option("--address", help="HOST:PORT of a running service; the data is written to it.")
@click.option("--pid", type=int, help="The first process of that service.")
@click.option("--turns", type=click.IntRange(min=1), default=3, show_default=True)
@click.option(
    "--calls", type=click.IntRange(min=1), default=500, show_default=True, help="Of each load."
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=RESULTS, help="For results."
)
def main(
    data: Path | None, address: str | None, pid: int | None, turns: int, calls: int, out: Path
) -> None:
    """Measure the service and its peers, and write JSON, a table and a plot."""
    if (address is None) != (pid is None):
        raise click.UsageError("--address and --pid belong together: CPU time needs the process")
    collection = multiplied_sample() if data is None else read_collection(data)
    target = None if address is None else Target(address, pid)
    with recorded("peers", collection, out, summary, save_picture) as take:
        asyncio.run(_measure(collection, target, turns, calls, take))


async def _measure(
    collection: Collection,
    target: Target | None,
    turns: int,
    calls: int,
    take: Callable[[Result], None],
) -> None:
    async with _systems(collection, target) as systems:
        with progress_bars(console) as bars:
            judged = collection.judged
            bar = bars.add_task("judging answers", total=len(judged) * len(systems))
            for system in systems:
                take(await recall(system, judged, lambda: bars.advance(bar)))
            loads = bars.add_task("load", total=len(CALLERS) * turns * len(systems) * calls)
            async for result in take_turns(
                systems,
                collection.queries,
                turns=turns,
                calls=calls,
                advance=lambda: bars.advance(loads),
            ):
                take(result)


@contextlib.asynccontextmanager
async def _systems(
    collection: Collection, target: Target | None
) -> AsyncIterator[Sequence[System]]:
    """Starts the service unless one is given, and fills all systems."""
    async with contextlib.AsyncExitStack() as stack:
        if target is None:
            console.print("starting the service")
            data_dir = stack.enter_context(fresh_data())
            target = await stack.enter_async_context(started(data_dir))
        assert target.pid is not None, "checked with the options; this is a bug"
        connections = await stack.enter_async_context(connected(target.address, MAX_CONNECTIONS))
        await _write(connections, collection)
        embedder = await stack.enter_async_context(open_embedder(load_settings(), NoRecorder()))
        console.print("embedding the passages for the peers")
        memories = await passages_of(collection, embedder, lambda _count: None)
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


async def _write(connections: Connections, collection: Collection) -> None:
    console.print("writing to the service")
    await store(connections, collection)


if __name__ == "__main__":
    main()
