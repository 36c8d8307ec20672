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
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import click

from bench.harness import options
from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections
from bench.harness.load import Ask, closed_loop, meanwhile, open_loop
from bench.harness.processes import ServiceProcesses, cpu_over
from bench.harness.results import Json, Latency, Record, Result, Take, select
from bench.harness.writing import loaded
from bench.reports.recording import recorded
from bench.reports.report import Column, latency, parameter, table_of, value
from bench.speed.cpu import ROLES
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


@click.command(context_settings=options.HELP)
@options.data
@options.count("--callers", 1, "Who ask at once.")
@options.measure("--writes", 100.0, "Of another tenant, a second, at the end.")
@options.out
def main(data: Path | None, callers: int, writes: float, out: Path) -> None:
    """Compare the answers and the CPU time with and without tenants in memory."""
    collection = options.chosen(data)
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

    def __init__(self, connections: Connections, given: Mapping[str, Any], callers: int) -> None:
        self._ask: Ask[Query, Retrieval] = partial(connections.ask, **given)
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

        run, use = await cpu_over(processes.cpu, closed_loop(ask, queries, self._callers))
        self.answers += answers
        self.seconds += [seconds for seconds, _ in run.answered]
        self.spent.update(use.by_role)

    def result(self, name: str, **more: Json) -> Result:
        """The result, with what else was measured."""
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
                **more,
            },
        )


async def _measure(collection: Collection, callers: int, writes: float, take: Take) -> None:
    queries = collection.queries
    async with loaded(collection, callers=callers) as (target, connections):
        processes = ServiceProcesses(target.pid)
        # Loads the tenants, and what the stores keep of them.
        for given in VARIANTS.values():
            await _Variant(connections, given, callers).take(processes, queries)
        memory, stores = (_Variant(connections, each, callers) for each in VARIANTS.values())
        for start in range(0, len(queries), TURN):
            turns = (memory, stores) if start // TURN % 2 == 0 else (stores, memory)
            for variant in turns:
                await variant.take(processes, queries[start : start + TURN])
        during, written = _Variant(connections, VARIANTS["memory"], callers), list[int]()
        client = connections.client(WRITTEN_TO)

        async def write(place: int) -> None:
            turn = Segment(id=f"turn-{place}", text=f"Turn {place}", event_time=datetime.now(UTC))
            await client.ingest([turn])
            written.append(place)

        arrivals_s = (place / writes for place in count())
        began = time.perf_counter()
        async with meanwhile(open_loop(write, count(), arrivals_s)):
            await during.take(processes, queries)
            written_per_s = len(written) / (time.perf_counter() - began)
    same = sum(map(_are_same, memory.answers, stores.answers))
    for name, variant in zip(VARIANTS, (memory, stores), strict=True):
        take(variant.result(name, same=same))
    take(during.result("memory, during writes", written_per_s=round(written_per_s, 1)))


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
