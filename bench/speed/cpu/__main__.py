"""The command `make bench-cpu`: where the CPU time of an answer goes.

The same questions are asked with less and less of the default profile; each process of the service
is measured. A flame graph shows what the replica's Python does meanwhile.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sysconfig
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import click
import psutil

from bench.harness.collection import Collection, Query
from bench.harness.connections import connected, connections_for
from bench.harness.cpu import cpu_over
from bench.harness.load import closed_loop
from bench.harness.options import HELP, chosen, data_option, out_option
from bench.harness.processes import ServiceProcesses, role_of
from bench.harness.results import Result, Take
from bench.harness.service import KEPT_QUESTIONS, fresh_data, started
from bench.harness.writing import store
from bench.reports.recording import console, recorded
from bench.speed.cpu.figures import CPU, REPEATED, cpu_table, save_picture
from serving.config.profiles import ProfileBook

CALLERS = 8
WARM_UP_ROUNDS = 10
SETTLING_CALLS = 100
REPLICA = "replica Ingress"
PY_SPY = Path(sysconfig.get_path("scripts")) / "py-spy"
"""It comes with Ray."""

SAMPLES_PER_S = 200
DEFAULT_LEGS = [leg.name for leg in ProfileBook.load()["default"].legs]


def _without(*legs: str) -> dict[str, Any]:
    return {"legs": {leg: {"weight": 0} for leg in legs}}


def _only(*legs: str) -> dict[str, Any]:
    plain = {"signals": {"speaker": 0, "time": 0}, "resolve_names": False, "adjacent": 0}
    return {**_without(*(leg for leg in DEFAULT_LEGS if leg not in legs)), **plain}


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    REPEATED: {},
    "without related and graph": _without("related", "graph"),
    "also without signals, names and times": _only("lexical", "dense", "context", "facts"),
    "words alone": _only("lexical"),
    "meaning alone": _only("dense", "context", "facts"),
    "graph alone": _only("graph"),
}
"""Changes of the default profile, each with less of it than the one before. `REPEATED` asks as many
questions as the service keeps vectors for, again and again."""


@click.command(context_settings=HELP)
@data_option
@click.option(
    "--calls", type=click.IntRange(min=1), default=1000, show_default=True, help="Of each variant."
)
@click.option(
    "--flame/--no-flame", default=True, help="Whether to draw flame.svg, which needs ptrace."
)
@out_option
def main(data: Path | None, calls: int, flame: bool, out: Path) -> None:
    """Measure the CPU time of an answer by what is asked and by process."""
    collection = chosen(data)
    with recorded("cpu", collection, out, cpu_table, save_picture) as take:
        picture = take.folder / "flame.svg" if flame else None
        asyncio.run(_measure(collection, calls, picture, take))
        if picture is not None:
            if not picture.exists():
                raise click.ClickException("py-spy may not trace the replica; use --no-flame")
            entitle(picture)


async def _measure(collection: Collection, calls: int, flame: Path | None, take: Take) -> None:
    console.print("starting the service")
    # Goes on where a variant ended.
    queries = cycle(collection.queries)
    kept = cycle(collection.queries[: KEPT_QUESTIONS // 2])
    with fresh_data() as data_dir:
        async with started(data_dir) as target:
            processes = ServiceProcesses(target.pid)
            async with connected(target.address, connections_for(CALLERS)) as connections:
                await store(connections, collection)

                async def ask(
                    changes: Mapping[str, Any], count: int, asked: Iterator[Query] = queries
                ) -> Any:
                    options: dict[str, Any] = {"profile_overrides": changes} if changes else {}
                    one = partial(connections.ask, **options)
                    return await closed_loop(one, islice(asked, count), CALLERS)

                await ask({}, WARM_UP_ROUNDS * calls)
                for name, changes in VARIANTS.items():
                    console.print(name)
                    asked = kept if name == REPEATED else queries
                    await ask(changes, SETTLING_CALLS, asked)
                    run, use = await cpu_over(processes, ask(changes, calls, asked))
                    take(
                        Result(
                            scenario=CPU,
                            parameters={"variant": name, "callers": CALLERS},
                            n=len(run.calls),
                            throughput_per_s=run.throughput_per_s,
                            latency=run.latency,
                            errors=run.errors,
                            measured={"cpu": use.per_request(len(run.calls))},
                        )
                    )
                if flame is not None:
                    async with _sampled(target.pid, flame):
                        await ask({}, calls)


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
