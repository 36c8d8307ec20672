"""The command `make bench-resident`: what tenants in memory change, which must be the CPU alone.

The questions of a set are asked in turns, with and without what is in memory, by a parameter of the
profile. The answers are compared by ids, order and scores. Then they are asked once more while
another tenant is written to: after each write the stores are asked until memory has it too.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import click

from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections, connected, connections_for
from bench.harness.cpu import cpu_over
from bench.harness.latency import Latency
from bench.harness.load import Ask, closed_loop, meanwhile, open_loop
from bench.harness.options import HELP, chosen, data_option, out_option
from bench.harness.processes import ServiceProcesses
from bench.harness.results import Record, Result, Take, select
from bench.harness.service import fresh_data, started
from bench.harness.writing import store
from bench.reports.recording import console, recorded
from bench.reports.report import Column, latency, parameter, table_of, value
from bench.speed.cpu.figures import ROLES
from trivium.aio import AsyncClient
from trivium.values import Retrieval, Segment

RESIDENT = "resident"
"""The scenario."""

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "memory": {},
    "stores": {"profile_overrides": {"in_memory": False}},
}

TURN = 100
"""The questions that are asked in one variant, and then in the other."""

BY_WORDS = "lexical"
"""The leg that tells whether an answer was from memory."""

WRITTEN_TO = "bench-written-to"


@click.command(context_settings=HELP)
@data_option
@click.option("--callers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--writes",
    type=click.FloatRange(min=0, min_open=True),
    default=100.0,
    show_default=True,
    help="Of another tenant, a second, at the end.",
)
@out_option
def main(data: Path | None, callers: int, writes: float, out: Path) -> None:
    """Compare the answers and the CPU time with and without tenants in memory."""
    collection = chosen(data)
    with recorded(RESIDENT, collection, out, resident_table) as take:
        asyncio.run(_measure(collection, callers, writes, take))


def resident_table(records: Sequence[Record]) -> str:
    """A row for each variant: latency, milliseconds of CPU, and how many answers were the same."""
    columns: dict[str, Column] = {
        "answered from": parameter("variant"),
        **latency("p50"),
        "CPU ms": value("measured", "cpu_ms"),
        **{name: value("measured", "by_role_ms", role) for role, name in ROLES.items()},
        "answers": value("n"),
        "from memory": value("measured", "from_memory"),
        "the same": value("measured", "same"),
        "writes/s": value("measured", "written_per_s"),
    }
    return table_of(select(records, RESIDENT), columns)


class _Variant:
    """The measurements of a variant."""

    def __init__(self, connections: Connections, options: Mapping[str, Any], callers: int) -> None:
        self._ask: Ask[Query, Retrieval] = partial(connections.ask, **options)
        self._callers = callers
        self.answers: list[Retrieval | None] = []
        self.seconds: list[float] = []
        self.spent: Counter[str] = Counter()

    async def take(self, processes: ServiceProcesses, queries: Sequence[Query]) -> None:
        """Asks some questions, and adds what it took."""
        places = {id(query): place for place, query in enumerate(queries)}
        answers: list[Retrieval | None] = [None] * len(queries)

        async def ask(query: Query) -> Retrieval:
            answer = answers[places[id(query)]] = await self._ask(query)
            return answer

        run, use = await cpu_over(processes, closed_loop(ask, queries, self._callers))
        self.answers += answers
        self.seconds += [seconds for seconds, _ in run.answered]
        self.spent.update(use.by_role)

    def result(self, name: str, same: int | None = None) -> Result:
        """The result, with the number of answers that were the same as those of the other."""
        count = len(self.answers)
        by_role = {role: 1e3 * seconds / count for role, seconds in self.spent.items()}
        return Result(
            scenario=RESIDENT,
            parameters={"variant": name, "callers": self._callers},
            n=count,
            latency=Latency.of(self.seconds),
            measured={
                "cpu_ms": sum(by_role.values()),
                "by_role_ms": by_role,
                "from_memory": sum(map(_is_from_memory, self.answers)),
                "same": same,
            },
        )


async def _measure(collection: Collection, callers: int, writes: float, take: Take) -> None:
    console.print("starting the service")
    queries = collection.queries
    with fresh_data() as data_dir:
        async with (
            started(data_dir) as target,
            connected(target.address, connections_for(callers)) as connections,
        ):
            await store(connections, collection)
            processes = ServiceProcesses(target.pid)
            # Loads the tenants, and what the stores keep of them.
            for options in VARIANTS.values():
                await _Variant(connections, options, callers).take(processes, queries)
            variants = {
                name: _Variant(connections, options, callers) for name, options in VARIANTS.items()
            }
            for start in range(0, len(queries), TURN):
                for name in sorted(variants, reverse=bool(start // TURN % 2)):
                    await variants[name].take(processes, queries[start : start + TURN])
            during, written = _Variant(connections, VARIANTS["memory"], callers), list[int]()
            write = partial(_write, connections.client(WRITTEN_TO), written)
            arrivals_s = (place / writes for place in count())
            began = time.perf_counter()
            async with meanwhile(open_loop(write, count(), arrivals_s)):
                await during.take(processes, queries)
                written_per_s = len(written) / (time.perf_counter() - began)
    memory, stores = (variants[name] for name in VARIANTS)
    same = sum(map(_are_same, memory.answers, stores.answers))
    for name, variant in variants.items():
        take(variant.result(name, same))
    result = during.result("memory, during writes")
    take(replace(result, measured={**result.measured, "written_per_s": round(written_per_s, 1)}))


async def _write(client: AsyncClient, written: list[int], place: int) -> None:
    """Writes a turn, and notes that it is stored."""
    turn = Segment(id=f"turn-{place}", text=f"Turn {place}", event_time=datetime.now(UTC))
    await client.ingest([turn])
    written.append(place)


def _is_from_memory(answer: Retrieval | None) -> bool:
    return answer is not None and any(
        report.leg == BY_WORDS and report.in_memory for report in answer.leg_reports
    )


def _are_same(left: Retrieval | None, right: Retrieval | None) -> bool:
    if left is None or right is None:
        return False
    return [(hit.ref, hit.score) for hit in left.hits] == [
        (hit.ref, hit.score) for hit in right.hits
    ]


if __name__ == "__main__":
    main()
