"""The command `python -m bench.scale`: one tenant as it grows, and small ones.

Vectors are given, so that writing is measured without an encoder; segments have no session, or each
would be embedded with the turn before it.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import click
import numpy as np

from bench.harness import options
from bench.harness.collection import Collection, Query
from bench.harness.connections import connected, connections_for
from bench.harness.load import closed_loop
from bench.harness.processes import ServiceProcesses
from bench.harness.results import Json, Record, Result, Take, find, number, select, table
from bench.harness.service import fresh_data, started
from bench.harness.writing import projected
from bench.reports import plots
from bench.reports.recording import console, recorded
from bench.reports.report import Column, figures, latency, parameter, table_of, value
from trivium.aio import AsyncClient
from trivium.values import Embedding, Segment

BIG, SMALL = "scale-big", "scale-small-{:04}"
SMALL_SEGMENTS = 200
LOADS = (("one", 1), ("one", 8), ("small", 1))
"""The tenants to ask, and the number of callers."""
WARM_UP = 50
TOPICS = 2000
WITHIN_S = 7200.0
MIB = 2**20
STORE_LOGS = {"pg_wal", "transactions"}
REPLICA = "replica Ingress"
"""All but the proxies and the stores is in it on one machine."""


class Texts:
    """Segments of random sentences of a collection, with vectors around random topics."""

    def __init__(self, collection: Collection, fingerprint: str, dimension: int) -> None:
        segments = collection.segments
        self._sentences = [part for each in segments for part in each.text.split(". ") if part]
        self._speakers = sorted({each.speaker for each in segments})
        self._fingerprint = fingerprint
        self._topics = np.random.default_rng(0).normal(size=(TOPICS, dimension))

    def segment(self, tenant: str, number: int) -> Segment:
        """The segment of a number, always the same."""
        draw = random.Random(f"{tenant} {number}")
        noise = np.random.default_rng(draw.getrandbits(32)).normal(size=self._topics.shape[1])
        vector = draw.choice(self._topics) + 1.2 * noise
        vector /= np.linalg.norm(vector)
        return Segment(
            id=f"s{number}",
            text=". ".join(draw.sample(self._sentences, 3)),
            speaker=draw.choice(self._speakers),
            embedding=Embedding(self._fingerprint, vector.tolist()),
        )

    async def write(self, client: AsyncClient, first: int, last: int) -> None:
        """Writes the segments of these numbers in order, as fast as the service takes a stream."""
        items = (self.segment(client.tenant, number) for number in range(first, last))
        await client.ingest_stream(items, timeout=WITHIN_S)


async def settled(client: AsyncClient, rows: int) -> int:
    """Waits until all is projected; returns how many states had no counts of the tenant."""
    without_counts = 0
    async with asyncio.timeout(WITHIN_S):
        while True:
            stats = await client.stats(timeout=30)
            without_counts += stats.tenant is None
            pending = {each.projection: each.pending_count for each in stats.projections}
            console.print(f"{client.tenant}: pending {pending}, {stats.index.vector_count} vectors")
            if projected(stats) and stats.index.vector_count >= rows:
                return without_counts
            await asyncio.sleep(2.0)


async def lists_built(client: AsyncClient) -> None:
    """Waits until the index builds nothing, as its training takes a core for minutes."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            index = (await client.stats(timeout=30)).index
            building = ", ".join(tier.rebuilding for tier in index.tiers if tier.rebuilding)
            if not building:
                return
            console.print(f"{client.tenant}: {building}")
            await asyncio.sleep(5.0)


async def grow(
    client: AsyncClient, texts: Texts, stored: int, size: int, small_rows: int
) -> Result:
    """Grows the one tenant to a size from what it has stored."""
    console.print(f"from {stored:,} to {size:,} segments")
    since = time.perf_counter()
    await texts.write(client, stored, size)
    written_s = time.perf_counter() - since
    without_counts = await settled(client, size + small_rows)
    projected_per_s = round((size - stored) / (time.perf_counter() - since), 1)
    return Result(
        scenario="grow",
        parameters={"size": size},
        n=size - stored,
        throughput_per_s=round((size - stored) / written_s, 1),
        measured={"projected_per_s": projected_per_s, "states_without_counts": without_counts},
    )


def footprint(data_dir: Path, pid: int, rows: int) -> dict[str, Json]:
    """The memory of the processes, and the bytes on disk by row of all tenants.

    The logs of the stores do not grow with the rows, and are not counted.
    """
    files = [path for name in ("postgres", "neo4j") for path in (data_dir / name).rglob("*")]
    stored = sum(
        path.stat().st_size
        for path in files
        if path.is_file() and STORE_LOGS.isdisjoint(path.parts)
    )
    memory = ServiceProcesses(pid).memory()
    return {
        "memory_mib": {role: round(used / MIB) for role, used in memory.items()},
        "disk_bytes_per_segment": round(stored / rows),
    }


async def measure(
    data_dir: Path,
    collection: Collection,
    stored: int,
    size: int,
    tenants: int,
    calls: int,
    take: Take,
) -> None:
    """Starts the service, grows the one tenant from what it has stored to the size, and asks."""
    small = [SMALL.format(number) for number in range(tenants)]
    rows = size + tenants * SMALL_SEGMENTS
    parameters: dict[str, Json] = {"size": size}
    async with (
        started(data_dir) as target,
        connected(target.address, connections_for(8)) as connections,
    ):
        client = connections.client(BIG)
        about = (await client.stats(timeout=30)).service
        texts = Texts(collection, about.model_fingerprint, about.dimension)
        for filled, name in enumerate(small if not stored else (), start=1):
            await texts.write(connections.client(name), 0, SMALL_SEGMENTS)
            if filled % 100 == 0:
                console.print(f"{filled} of {tenants} small tenants have their segments")
        take(await grow(client, texts, stored, size, rows - size))
        await lists_built(client)
        questions = [each.text for each in islice(cycle(collection.queries), WARM_UP + calls)]
        for name, callers in LOADS:
            draw, asked = random.Random(0), [BIG] if name == "one" else small
            queries = [Query(id="", tenant=draw.choice(asked), text=text) for text in questions]
            await closed_loop(connections.ask, queries[:WARM_UP], callers)
            found = await closed_loop(connections.ask, queries[WARM_UP:], callers)
            take(found.result("ask", {**parameters, "tenant": name, "callers": callers}))
        taken = footprint(data_dir, target.pid, rows)
        take(Result(scenario="footprint", parameters=parameters, n=rows, measured=taken))


async def restart(data_dir: Path, size: int, take: Take, *, erases: bool) -> None:
    """Starts the service with all that is stored, and may erase the one tenant."""
    async with started(data_dir) as target, connected(target.address, 1) as connections:
        seconds = {"start_s": round(target.healthy_after_s, 1)}
        if erases:
            since = time.perf_counter()
            await connections.client(BIG).forget(everything=True, timeout=1800)
            seconds["erase_s"] = round(time.perf_counter() - since, 1)
        take(Result(scenario="restart", parameters={"size": size}, n=1, measured=seconds))


def growth_table(records: Sequence[Record]) -> str:
    """Questions at each size, by which power of the size the p95 grows, and what a size takes."""
    asked: dict[str, Column] = {
        "segments": value("parameters", "size"),
        "asked": parameter("tenant"),
        "callers": parameter("callers"),
        "answers/s": value("throughput_per_s"),
        **latency("p50", "p95"),
    }

    def memory(record: Record) -> str:
        used = table(record, "measured", "memory_mib")
        return ", ".join(f"{role} {mib}" for role, mib in used.items())

    def at_size(scenario: str, *path: str) -> Column:
        """A figure of another scenario at the same size."""
        return lambda each: figures(
            number(find(records, scenario, size=table(each, "parameters")["size"]), *path)
        )

    taken: dict[str, Column] = {
        "segments": value("parameters", "size"),
        "acknowledged/s": at_size("grow", "throughput_per_s"),
        "found/s": at_size("grow", "measured", "projected_per_s"),
        "MiB of memory": memory,
        "bytes on disk a segment": value("measured", "disk_bytes_per_segment"),
        "s to start": at_size("restart", "measured", "start_s"),
        "s to erase": at_size("restart", "measured", "erase_s"),
    }
    powers = [f"{name}, {callers}: {exponent(records, name, callers)}" for name, callers in LOADS]
    return (
        f"{table_of(select(records, 'ask'), asked)}\n\n"
        f"Exponents of the p95 by the size (asked, callers): {'; '.join(powers)}.\n\n"
        f"{table_of(select(records, 'footprint'), taken)}"
    )


def exponent(records: Sequence[Record], tenant: str, callers: int) -> str:
    """The slope of log p95 over log size between the least and the largest size."""
    asked = select(records, "ask", tenant=tenant, callers=callers)
    points = sorted(_points(asked, "latency", "p95_ms"))
    if len(points) < 2 or points[0][0] == points[-1][0]:
        return "-"
    (size, p95), (larger, later) = points[0], points[-1]
    return f"{math.log(later / p95) / math.log(larger / size):.2f}"


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws the latency and the memory of the replica by the size, both axes logarithmic."""
    one, small = (select(records, "ask", tenant=name, callers=1) for name in ("one", "small"))
    of_small = f"a tenant of {SMALL_SEGMENTS}, p50"
    latencies = {
        "the tenant, p50": _points(one, "latency", "p50_ms"),
        "the tenant, p95": _points(one, "latency", "p95_ms"),
        of_small: _points(small, "latency", "p50_ms"),
    }
    memory = {"": _points(select(records, "footprint"), "measured", "memory_mib", REPLICA)}
    panels = (("Latency, one caller", "ms", latencies), ("Memory of the replica", "MiB", memory))
    with plots.picture(path, 11, 4.2) as figure:
        for place, (title, unit, lines) in enumerate(panels, start=1):
            axes = plots.panel(figure, place, title, "segments of the tenant", columns=len(panels))
            axes.grid(axis="y", color=plots.GRID)
            axes.set_ylabel(unit)
            for (name, points), colour in zip(lines.items(), plots.COLOURS, strict=False):
                style = "--" if name == of_small else "-"
                axes.plot(*zip(*points, strict=True), style, color=colour, marker="o", label=name)
            if any(lines.values()):
                axes.set(xscale="log", yscale="log")
                plots.name_powers(axes.xaxis)
                plots.name_powers(axes.yaxis)
            plots.legend(axes, loc="upper left")


def _points(records: Sequence[Record], *path: str) -> list[tuple[float, float]]:
    """The sizes that have a figure, and this."""
    found = [(number(each, "parameters", "size"), number(each, *path)) for each in records]
    return [(size, figure) for size, figure in found if size and figure]


@click.command(context_settings=options.HELP)
@options.data
@options.numbers("--segments", "10000,50000,100000", "The sizes of the one tenant, ascending.")
@click.option("--tenants", default=20, show_default=True, help=f"With {SMALL_SEGMENTS} segments.")
@options.count("--calls", 400, "Questions of each loop.")
@options.out
def main(data: Path | None, segments: Sequence[float], tenants: int, calls: int, out: Path) -> None:
    """Fill one tenant with vectors given, and measure the service at each size."""
    collection = options.chosen(data)
    sizes = [round(size) for size in segments]

    async def run(data_dir: Path, take: Take) -> None:
        for stored, size in itertools.pairwise([0, *sizes]):
            await measure(data_dir, collection, stored, size, tenants, calls, take)
            await restart(data_dir, size, take, erases=size == sizes[-1])

    with (
        recorded("scale", collection, out, growth_table, save_picture) as take,
        fresh_data() as folder,
    ):
        asyncio.run(run(folder, take))


if __name__ == "__main__":
    main()
