"""The command `make bench-cpu`: where the CPU time of an answer goes.

The same questions are asked with less and less of the default profile; each process of the service
is measured. A flame graph shows what the replica's Python does meanwhile.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sysconfig
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil

from bench.harness.collection import Collection, Query, read_collection
from bench.harness.connections import Connections, connected, connections_for
from bench.harness.cpu import CpuMeter, per_request
from bench.harness.load import closed_loop
from bench.harness.processes import ServiceProcesses, role_of
from bench.harness.results import RESULTS, Result
from bench.harness.sample import multiplied_sample
from bench.harness.service import fresh_data, started
from bench.harness.writing import store
from bench.reports.progress import progress_bars
from bench.reports.recording import console, recorded
from bench.speed.cpu.figures import CPU, cpu_table, save_picture
from bench.speed.cpu.ways import WAYS, Way
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.telemetry import NoRecorder
from trivium.values import Retrieval

CALLERS = 8
WARM_UP_CALLS = 10_000
SETTLING_CALLS = 100
EMBEDDING_S = 30.0
REPLICA = "replica Fusion"
PY_SPY = Path(sysconfig.get_path("scripts")) / "py-spy"
"""It comes with Ray."""

SAMPLES_PER_S = 200


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="An evaluation set; without, the sample conversation multiplied.",
)
@click.option(
    "--calls", type=click.IntRange(min=1), default=1000, show_default=True, help="Of each way."
)
@click.option(
    "--flame/--no-flame", default=True, help="Whether to draw flame.svg, which needs ptrace."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make the folder of results.",
)
def main(data: Path | None, calls: int, flame: bool, out: Path) -> None:
    """Measure the CPU time of an answer by what is asked and by process."""
    collection = multiplied_sample() if data is None else read_collection(data)
    with recorded("cpu", collection, out, cpu_table, save_picture) as take:
        picture = take.folder / "flame.svg" if flame else None
        asyncio.run(_measure(collection, calls, picture, take))
        if picture is not None:
            if not picture.exists():
                raise click.ClickException("py-spy may not trace the replica; use --no-flame")
            entitle(picture)


async def _measure(
    collection: Collection, calls: int, flame: Path | None, take: Callable[[Result], None]
) -> None:
    console.print("starting the service")
    with fresh_data() as data_dir:
        async with started(data_dir) as target:
            assert target.pid is not None, "it was started here; this is a bug"
            count = connections_for(CALLERS)
            async with connected(target.address, count) as connections:
                await store(connections, collection)
                vectors = await _vectors(collection)
                asking = _Asking(connections, collection, vectors)
                meter = CpuMeter(ServiceProcesses(target.pid))
                with progress_bars(console) as bars:
                    bar = bars.add_task("asking", total=WARM_UP_CALLS + len(WAYS) * calls)
                    asking.advance = lambda: bars.advance(bar)
                    await asking.ask(WAYS[0], WARM_UP_CALLS)
                    for way in WAYS:
                        take(await asking.measured(way, calls, meter))
                    if flame is not None:
                        async with _sampled(target.pid, flame):
                            await asking.ask(WAYS[0], calls)
            console.print("stopping the service")


async def _vectors(collection: Collection) -> dict[str, list[float]]:
    """The vectors of the questions, by text."""
    async with open_embedder(load_settings(), NoRecorder()) as embedder:
        return {
            text: np.asarray(await embedder.embed_query(text, Deadline.after(EMBEDDING_S))).tolist()
            for text in dict.fromkeys(query.text for query in collection.queries)
        }


class _Asking:
    """Goes on through the questions, so that no cache of the last ones answers them."""

    def __init__(
        self, connections: Connections, collection: Collection, vectors: dict[str, list[float]]
    ) -> None:
        self._connections = connections
        self._vectors = vectors
        self._queries = cycle(collection.queries)
        self.advance: Callable[[], None] = lambda: None

    async def ask(self, way: Way, calls: int) -> Any:
        async def one(query: Query) -> Retrieval:
            options: dict[str, Any] = {"profile_overrides": way.overrides} if way.overrides else {}
            if way.with_vector:
                options["vector"] = self._vectors[query.text]
            return await self._connections.ask(query, **options)

        return await closed_loop(one, islice(self._queries, calls), CALLERS, self.advance)

    async def measured(self, way: Way, calls: int, meter: CpuMeter) -> Result:
        await self.ask(way, SETTLING_CALLS)
        run, use = await meter.over(self.ask(way, calls))
        return Result(
            scenario=CPU,
            parameters={"way": way.name, "callers": CALLERS},
            n=len(run.calls),
            throughput_per_s=run.throughput_per_s,
            latency=run.latency,
            errors=run.errors,
            measured={"cpu": None if use is None else per_request(use, None, len(run.calls))},
        )


@asynccontextmanager
async def _sampled(pid: int, path: Path) -> AsyncIterator[None]:
    """Samples the replica, whose Python holds the interpreter lock, until the end."""
    replica = next(
        process
        for process in psutil.Process(pid).children(recursive=True)
        if role_of(process.name(), process.cmdline()) == REPLICA
    )
    sampler = await asyncio.create_subprocess_exec(
        *(PY_SPY, "record", "--gil", "--rate", str(SAMPLES_PER_S), "--output", path),
        *("--pid", str(replica.pid)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        sampler.send_signal(signal.SIGINT)
        await sampler.wait()


def entitle(path: Path) -> None:
    """Names the process in the title of a flame graph, which is a command with local paths."""
    picture = re.sub(r'(<text id="title"[^>]*>)[^<]*', rf"\1{REPLICA}", path.read_text())
    path.write_text(picture)


if __name__ == "__main__":
    main()
