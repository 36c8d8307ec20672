"""Reads sets, writes them to the service, and measures them under every configuration."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import click

from bench.harness.collection import Collection, read_collection
from bench.harness.connections import Connections
from bench.harness.processes import ServiceProcesses
from bench.harness.results import table
from bench.harness.writing import BatchLoader, measure_projection, projected
from bench.quality.run_config import RunConfig, legs_of
from bench.quality.scoring.evaluate import Answers, evaluate
from bench.reports.recording import console
from trivium.tuning import Profile

WARM_UP = 50
"""Questions sent before those that count."""

STATS_TIMEOUT_S = 30.0


SHOWN_PROBLEMS = 10


def read_sets(
    folders: Sequence[Path], query_limit: int | None, skip_unreadable: bool
) -> list[Collection]:
    """Reads the sets of a command; lines that cannot be read may be left out, which is said.

    Raises:
        click.ClickException: Two sets have one name, one has no judged question, or lines cannot
            be read.
        OSError: A file is missing.
    """
    collections = [read_collection(each, query_limit=query_limit) for each in folders]
    names = [each.name for each in collections]
    for collection in collections:
        if names.count(collection.name) > 1:
            raise click.UsageError(f"two folders are called {collection.name!r}")
        problems = [str(problem) for problem in collection.problems]
        shown = "\n".join(problems[:SHOWN_PROBLEMS])
        if problems and not skip_unreadable:
            raise click.ClickException(
                f"{len(problems)} lines of {collection.name} cannot be read; "
                f"--skip-unreadable leaves them out:\n{shown}"
            )
        if problems:
            console.print(f"left out {len(problems)} lines:\n{shown}", style="yellow", markup=False)
        if not collection.judged:
            raise click.ClickException(f"{collection.name} has no judged question")
    return collections


async def measure(
    connections: Connections,
    profiles: Sequence[Profile],
    collection: Collection,
    configs: Sequence[RunConfig],
    processes: ServiceProcesses | None = None,
) -> list[Answers]:
    """Writes a set, waits until every leg has it, and asks its questions under each configuration.

    Raises:
        ValueError: The service would not store all of it.
        TriviumError: It did not answer while the set was written.
    """
    stored = await store(connections, collection)
    queries = collection.judged
    await evaluate(stored, queries[:WARM_UP], configs[0], ())
    answers = []
    for config in configs:
        console.print(f"{collection.name}: {len(queries)} questions, {config.name}", markup=False)
        legs = legs_of(config, profiles)
        answers.append(await evaluate(stored, queries, config, legs, processes))
    return answers


async def store(connections: Connections, collection: Collection) -> Connections:
    """Writes a set, unless all of it is stored, and waits until every leg has it.

    The set has tenants of its own, named by its contents: it is written once however often it is
    measured, and apart from all other data. Returns the connections to them.

    Raises:
        ValueError: The service would not store all of it.
        TriviumError: It did not answer while the set was written.
    """
    apart = connections.apart(f"-{fingerprint(collection)}")
    if not await _is_stored(apart, collection):
        console.print(f"{collection.name}: writing", markup=False)
        since = time.perf_counter()
        loader = BatchLoader(apart)
        for result in await loader.load(collection):
            if rejected := table(result.measured, "outcomes").get("rejected"):
                kind = result.parameters["kind"]
                raise ValueError(f"{collection.name}: the service rejected {rejected} {kind}")
        await measure_projection(apart, collection, loader.tokens, since)
    return apart


def fingerprint(collection: Collection) -> str:
    """A hash of the stored contents of a set."""
    digest = hashlib.sha256()
    for tenant, memory in sorted(collection.memories.items()):
        digest.update(repr((tenant, memory.segments, memory.facts)).encode())
    return digest.hexdigest()[:12]


async def _is_stored(connections: Connections, collection: Collection) -> bool:
    """Whether the tenants of a set hold as much as it has, and every projection has it.

    Their names are made of the contents, so an equal count means equal contents.
    """
    for tenant, memory in collection.memories.items():
        stats = await connections.client(tenant).stats(timeout=STATS_TIMEOUT_S)
        counts = stats.tenant
        if counts is None or not projected(stats):
            return False
        if (counts.segment_count, counts.fact_count) != (len(memory.segments), len(memory.facts)):
            return False
    return True
