"""Stores the first candidates of every question of a set, as the service has them without the rule.

`python -m bench.holds.heads OUT FOLDER...` writes OUT/NAME.jsonl for each set, a line a question:
its id and its candidates as `[id, score, {leg: its score}]`, best first; and OUT/NAME.npz, the
vectors of the turns among them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from bench.harness import options
from bench.harness.collection import Collection, Query, as_embedded, left_without_facts
from bench.harness.connections import Connections, connected
from bench.harness.service import running
from bench.quality.session import read_sets, store
from bench.reports.recording import ended_by_message
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.domain.ranking.holds.pairs import HEAD
from serving.ports.embedding import Embedder
from serving.telemetry import NoRecorder
from trivium.values import Segment

LIMIT = 40
TIMEOUT_S = 30.0
OFF = {"current_first": False}


@click.command()
@click.argument("out", type=click.Path(path_type=Path, file_okay=False))
@options.folders
@click.option("--without-facts", is_flag=True, help="Leave the facts of the sets out.")
@options.address
def main(out: Path, folders: Sequence[Path], without_facts: bool, address: str | None) -> None:
    """Write the candidates of all judged questions of each FOLDER to OUT."""
    out.mkdir(parents=True, exist_ok=True)
    with ended_by_message(OSError, ValueError):
        sets = read_sets(folders, None, False)
        if without_facts:
            sets = [left_without_facts(each) for each in sets]
        asyncio.run(_write(out, sets, address))


async def _write(out: Path, collections: Sequence[Collection], address: str | None) -> None:
    async with contextlib.AsyncExitStack() as stack:
        target = await stack.enter_async_context(running(address))
        connections = await stack.enter_async_context(connected(target.address, 1))
        embedder = await stack.enter_async_context(open_embedder(load_settings(), NoRecorder()))
        for collection in collections:
            stored = await store(connections, collection)
            queries = sorted(collection.judged, key=lambda each: each.id)
            heads = {query.id: await _head(stored, query) for query in queries}
            lines = [json.dumps({"id": id_, "head": head}) for id_, head in heads.items()]
            path = out / f"{collection.name}.jsonl"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            found = {id_ for head in heads.values() for id_, _, _ in head[:HEAD]}
            await _write_vectors(path.with_suffix(".npz"), collection, found, embedder)
            click.echo(f"written to {path}")


async def _head(stored: Connections, query: Query) -> list[tuple[str, float, dict[str, float]]]:
    retrieval = await stored.ask(
        query, timeout=TIMEOUT_S, limit=LIMIT, profile_overrides=OFF, explain=True
    )
    return [
        (hit.item.id, hit.score, {term.leg: term.leg_score for term in hit.ledger.leg_terms})
        for hit in retrieval.hits
        if isinstance(hit.item, Segment) and hit.ledger is not None
    ]


async def _write_vectors(
    path: Path, collection: Collection, found: set[str], embedder: Embedder
) -> None:
    texts = {
        segment.id: as_embedded(segment)
        for segment in collection.segments
        if segment.id in found and segment.event_time is not None
    }
    # The first window of a long text stands for it.
    made = await embedder.embed_documents(list(texts.values()))
    vectors = np.array([each.vectors[0] for each in made], dtype=np.float16)
    np.savez(path, ids=np.array(list(texts)), vectors=vectors)


if __name__ == "__main__":
    main()
