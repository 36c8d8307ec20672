"""The command `python -m bench.speed.faults.degradation`: profiles while a dependency hangs.

Ten questions of each profile, one after the other, by each store and replica that hangs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import click

from bench.harness import options
from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections
from bench.harness.load import Call, closed_loop, leg_states
from bench.harness.results import Record, Result, Take, percentile_ms, select
from bench.reports.recording import console, recorded
from bench.reports.report import Column, counted, parameter, table_of, value
from bench.speed.faults.dependencies import Dependency, Fault, in_each_placement
from bench.speed.loads import recovery
from serving.domain.breaker import FAILURES, FIRST_PAUSE_S
from trivium.values import Retrieval

DEGRADATION = "degradation"
QUESTIONS = 10
BUDGET_S = 1.0
BETWEEN_S = 1.2 * FIRST_PAUSE_S
"""Each question may then make a probe, for which it must not wait."""


@click.command(context_settings=options.HELP)
@options.data
@options.out
def main(data: Path | None, out: Path) -> None:
    """Ask ten questions of each profile while each store and replica hangs."""
    collection = options.chosen(data)
    with recorded(DEGRADATION, collection, out, degradation_table) as take:
        asyncio.run(in_each_placement(collection, partial(_hang_all, collection, take)))


async def _hang_all(
    collection: Collection,
    take: Take,
    connections: Connections,
    dependencies: Sequence[Dependency],
) -> None:
    queries = cycle(collection.queries)
    for dependency in dependencies:
        for profile in await connections.profiles():
            console.print(f"{dependency.name} hung, {profile.name}")
            take(await degradation(dependency, connections, queries, profile.name))


async def degradation(
    dependency: Dependency, connections: Connections, queries: cycle[Query], profile: str
) -> Result:
    """Asks questions of a profile while a dependency hangs, after all is as usual."""
    ask = partial(connections.ask, profile=profile, timeout=BUDGET_S)
    await recovery(ask, queries, BUDGET_S)
    await dependency.begin(Fault.HUNG)
    calls: list[Call[Retrieval]] = []
    try:
        for _ in range(QUESTIONS):
            calls += (await closed_loop(ask, islice(queries, 1), 1)).calls
            await asyncio.sleep(BETWEEN_S)
    finally:
        await dependency.end(Fault.HUNG)
    return result_of(dependency.name, profile, calls)


def result_of(dependency: str, profile: str, calls: Sequence[Call[Retrieval]]) -> Result:
    """Summarises the first `FAILURES` questions, and those after the breaker has opened."""
    seconds = [call.seconds for call in calls]
    answers = [call.answer for call in calls if call.answer is not None]
    return Result(
        scenario=DEGRADATION,
        parameters={"dependency": dependency, "profile": profile, "budget_ms": BUDGET_S * 1e3},
        n=len(calls),
        errors=Counter(call.code for call in calls if call.code),
        measured={
            "first_max_ms": percentile_ms(seconds[:FAILURES], 1.0, 1),
            "later_p95_ms": percentile_ms(seconds[FAILURES:], 0.95, 1),
            "answers": len(answers),
            "leg_states": leg_states(answers),
        },
    )


def degradation_table(records: Sequence[Record]) -> str:
    """A line for each dependency and profile; empty for none."""
    columns: dict[str, Column] = {
        "hung": parameter("dependency"),
        "profile": parameter("profile"),
        "answers": value("measured", "answers"),
        f"first {FAILURES}, max ms": value("measured", "first_max_ms"),
        f"{FAILURES + 1} to {QUESTIONS}, p95 ms": value("measured", "later_p95_ms"),
        "legs not OK": counted("measured", "leg_states"),
        "errors": counted("errors"),
    }
    return table_of(select(records, DEGRADATION), columns)


if __name__ == "__main__":
    main()
