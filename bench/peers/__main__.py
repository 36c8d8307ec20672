"""The command `make bench-peers`: the service and other libraries, on one machine, in turns.

Every system has the same texts, questions and encoder; then the same texts and facts. The peers run
in this process, without a network; the service is asked over gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from bench.harness import options
from bench.harness.collection import (
    Collection,
    Memory,
    as_embedded,
    as_stored,
    left_without_facts,
)
from bench.harness.results import Result, Take, number
from bench.harness.writing import batches, loaded
from bench.peers.bm25_numpy import Bm25Numpy
from bench.peers.graph_memory import graph_memory
from bench.peers.lance import Lance
from bench.peers.mem0_memory import Mem0
from bench.peers.peer import Memories, Passage, Peer
from bench.peers.qdrant import QdrantEdge
from bench.peers.tables import GIVEN, save_picture, summary
from bench.peers.turns import System, in_process, judged, served, take_turns
from bench.reports.recording import console, recorded
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.domain.items.text import text_of
from serving.ports.embedding import Embedder
from serving.telemetry import NoRecorder

CONNECTED = 64
"""For as many callers there are connections to the service."""


@click.command(context_settings=options.HELP)
@options.data
@options.count("--turns", 3, "How often each system has its turn.")
@options.count("--calls", 500, "Of each load.")
@options.count("--questions", None, "Of the set, to try the command.")
@options.out
def main(data: Path | None, turns: int, calls: int, questions: int | None, out: Path) -> None:
    """Measure the service and its peers, and write JSON, tables and a plot."""
    collection = options.chosen(data)
    collection = replace(collection, queries=collection.queries[:questions])
    with recorded("peers", collection, out, summary, save_picture) as take:
        sets = (left_without_facts(collection), collection)
        for given, measured in zip(
            GIVEN, sets if collection.fact_count else sets[:1], strict=False
        ):
            asyncio.run(_measure(measured, given, turns, calls, take))


async def _measure(
    collection: Collection, given: str, turns: int, calls: int, record: Take
) -> None:
    def take(result: Result) -> None:
        record(replace(result, parameters={"given": given, **result.parameters}))

    async with _systems(collection) as variants:
        systems = []
        for of_one in variants:
            console.print(f"judging the answers of {of_one[0].name} to {given}")
            results = {system: await judged(system, collection.judged) for system in of_one}
            for result in results.values():
                take(result)
            recalls = {
                system: number(result.measured, "recall@10", "mean") or 0.0
                for system, result in results.items()
            }
            systems.append(max(recalls, key=recalls.__getitem__))
        async for result in take_turns(systems, collection.queries, turns=turns, calls=calls):
            take(result)


@contextlib.asynccontextmanager
async def _systems(collection: Collection) -> AsyncIterator[Sequence[Sequence[System]]]:
    """Starts the service, and fills all systems; each peer with each of its rank constants."""
    async with contextlib.AsyncExitStack() as stack:
        service = loaded(collection, callers=CONNECTED)
        target, connections = await stack.enter_async_context(service)
        embedder = await stack.enter_async_context(open_embedder(load_settings(), NoRecorder()))
        console.print("embedding the passages for the peers")
        memories = await passages_of(collection, embedder)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trb-")))
        for name in ("qdrant", "lance", "mem0"):
            (folder / name).mkdir()
        graph = graph_memory(folder / "neo4j", load_settings().cache_dir)
        peers: list[Peer] = [
            Bm25Numpy(),
            stack.enter_context(contextlib.closing(QdrantEdge(folder / "qdrant"))),
            Lance(folder / "lance"),
            stack.enter_context(contextlib.closing(Mem0(folder / "mem0"))),
            await stack.enter_async_context(graph),
        ]
        for peer in peers:
            console.print(f"writing to {peer.name}")
            await peer.fill(memories)
        in_turn = [in_process(peer, embedder, memories) for peer in peers]
        yield [[served(connections, target.pid)], *in_turn]


async def passages_of(collection: Collection, embedder: Embedder) -> Memories:
    """Embeds the segments and the facts of each tenant, in the form that the service embeds.

    A text longer than the model's window is searched by its first window: a peer has one vector
    for each text. What is sensitive is left out, because it is never embedded, and so are facts
    without evidence, which answer no question of a set.
    """
    memories: dict[str, list[Passage]] = {}
    for tenant, memory in collection.memories.items():
        passages = memories[tenant] = []
        for batch in batches(list(_texts_of(memory))):
            made = await embedder.embed_documents([to_embed for _, _, to_embed, _ in batch])
            passages += [
                Passage(id_, text, each.vectors[0], evidence)
                for (id_, text, _, evidence), each in zip(batch, made, strict=True)
            ]
    return memories


def _texts_of(memory: Memory) -> Iterator[tuple[str, str, str, Sequence[str]]]:
    """The id, the text, its form to embed and the evidence of each passage."""
    for segment in memory.segments:
        if not segment.sensitive:
            text = text_of(as_stored(segment))
            yield segment.id, text, as_embedded(segment), (segment.id,)
    for fact in memory.facts:
        if fact.evidence and not fact.sensitive:
            sentence = fact.sentence or f"{fact.subject} {fact.relation} {fact.object}"
            yield f"fact {fact.id}", sentence, sentence, fact.evidence


if __name__ == "__main__":
    main()
