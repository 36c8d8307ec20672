"""The command `make bench-cpu`: where the CPU time of an answer goes.

The same questions are asked with less and less of the default profile; each process of the service
is measured. A flame graph shows what the replica's Python does meanwhile.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sysconfig
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import click

from bench.harness import options
from bench.harness.collection import Collection, Query
from bench.harness.load import closed_loop
from bench.harness.processes import ServiceProcesses, cpu_over
from bench.harness.results import Record, Take, find, number, select
from bench.harness.service import KEPT_QUESTIONS
from bench.harness.writing import loaded
from bench.reports import plots
from bench.reports.recording import console, recorded
from bench.reports.report import Column, figures, latency, parameter, table_of, value
from serving.config.profiles import ProfileBook

CPU = "cpu"
"""The scenario."""

CALLERS = 8
WARM_UP_ROUNDS = 10
SETTLING_CALLS = 100
REPLICA = "replica Ingress"
ROLES = {
    REPLICA: "replica",
    "neo4j": "Neo4j",
    "postgres": "PostgreSQL",
    "ray": "Ray",
    "haproxy": "HAProxy",
    "client": "client",
}
PY_SPY = Path(sysconfig.get_path("scripts")) / "py-spy"
"""It comes with Ray."""

SAMPLES_PER_S = 200
DEFAULT_LEGS = [leg.name for leg in ProfileBook.load()["default"].legs]
REPEATED = "default, questions repeated"
"""The variant whose questions are among those whose vectors are kept."""


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


@click.command(context_settings=options.HELP)
@options.data
@options.count("--calls", 1000, "Of each variant.")
@click.option(
    "--flame/--no-flame", default=True, help="Whether to draw flame.svg, which needs ptrace."
)
@options.out
def main(data: Path | None, calls: int, flame: bool, out: Path) -> None:
    """Measure the CPU time of an answer by what is asked and by process."""
    collection = options.chosen(data)
    with recorded(CPU, collection, out, cpu_table, save_picture) as take:
        picture = take.folder / "flame.svg" if flame else None
        asyncio.run(_measure(collection, calls, picture, take))
        if picture is not None:
            if not picture.exists():
                raise click.ClickException("py-spy may not trace the replica; use --no-flame")
            entitle(picture)


async def _measure(collection: Collection, calls: int, flame: Path | None, take: Take) -> None:
    # Goes on where a variant ended.
    queries = cycle(collection.queries)
    kept = cycle(collection.queries[: KEPT_QUESTIONS // 2])
    async with loaded(collection, callers=CALLERS) as (target, connections):
        processes = ServiceProcesses(target.pid)

        async def ask(
            changes: Mapping[str, Any], count: int, asked: Iterator[Query] = queries
        ) -> Any:
            changed: Any = {"profile_overrides": changes} if changes else {}
            one = partial(connections.ask, **changed)
            return await closed_loop(one, islice(asked, count), CALLERS)

        await ask({}, WARM_UP_ROUNDS * calls)
        for name, changes in VARIANTS.items():
            console.print(name)
            asked = kept if name == REPEATED else queries
            await ask(changes, SETTLING_CALLS, asked)
            run, use = await cpu_over(processes.cpu, ask(changes, calls, asked))
            cpu = use.per_request(len(run.calls))
            take(run.result(CPU, {"variant": name, "callers": CALLERS}, cpu=cpu))
        if flame is not None:
            async with _sampled(processes, flame):
                await ask({}, calls)


@asynccontextmanager
async def _sampled(processes: ServiceProcesses, path: Path) -> AsyncIterator[None]:
    """Samples the replica, whose Python holds the interpreter lock, until the end."""
    replica = next(process for role, process in processes.by_role() if role == REPLICA)
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


# ---------------------------------------------------------------- figures

_BY_ROLE = ("measured", "cpu", "by_role_ms")


def cpu_table(records: Sequence[Record]) -> str:
    """A row for each variant: answers a second, and milliseconds of CPU for each answer."""
    columns: dict[str, Column] = {
        "asked": parameter("variant"),
        "answers/s": value("throughput_per_s"),
        **latency("p50"),
        "CPU ms": value("measured", "cpu", "total_ms"),
        **{name: value(*_BY_ROLE, role) for role, name in ROLES.items()},
    }
    return table_of(select(records, CPU), columns)


def repeated_cost(records: Sequence[Record]) -> str:
    """The cost of a repeated question compared with a new one."""

    def cost(variant: str) -> str:
        found = find(records, CPU, variant=variant)
        p50, cpu = number(found, "latency", "p50_ms"), number(found, "measured", "cpu", "total_ms")
        return f"{figures(p50)} ms (p50) and {figures(cpu)} ms of CPU time"

    return (
        f"A new question takes {cost('default')}, a repeated one,\n"
        f"which is not embedded again, {cost(REPEATED)}."
    )


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a bar for each variant, divided by process."""
    measured = select(records, CPU)
    parts = {role: [number(each, *_BY_ROLE, role) or 0.0 for each in measured] for role in ROLES}
    with plots.picture(path, 11, 0.55 * len(measured) + 1.6) as figure:
        axes = plots.panel(figure, 1, "CPU time of an answer", "ms, by process")
        plots.stacked_bars(axes, [parameter("variant")(each) for each in measured], parts)
        plots.legend(axes, loc="lower right")


if __name__ == "__main__":
    main()
