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

from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections
from bench.harness.latency import percentile
from bench.harness.load import Call, closed_loop
from bench.harness.options import HELP, chosen, data_option, out_option
from bench.harness.results import Record, Result, Take, select, table
from bench.reports.recording import console, recorded
from bench.reports.report import Column, counts, head, parameter, table_of, value
from bench.speed.faults.dependencies import Dependency, Fault
from bench.speed.faults.placements import in_each_placement
from bench.speed.overload.figures import leg_states
from bench.speed.overload.loads import recovery
from serving.domain.breaker import FAILURES, FIRST_PAUSE_S
from trivium.values import Retrieval

DEGRADATION = "degradation"
QUESTIONS = 10
BUDGET_S = 1.0
BETWEEN_S = 1.2 * FIRST_PAUSE_S
"""Each question may then make a probe, for which it must not wait."""


@click.command(context_settings=HELP)
@data_option
@out_option
def main(data: Path | None, out: Path) -> None:
    """Ask ten questions of each profile while each store and replica hangs."""
    collection = chosen(data)
    with recorded(DEGRADATION, collection, out, summary) as take:
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
    """Asks questions of a profile while a dependency hangs, after all is as usual.

    Args:
        dependency: Which answers now, and again when this returns.
        connections: To the service.
        queries: At least one.
        profile: By its name.
    """
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
        errors=dict(Counter(call.code for call in calls if call.code)),
        measured={
            "first_max_ms": round(max(seconds[:FAILURES]) * 1e3, 1),
            "later_p95_ms": round(percentile(sorted(seconds[FAILURES:]), 0.95) * 1e3, 1),
            "answers": len(answers),
            "leg_states": leg_states(answers),
        },
    )


def summary(records: Sequence[Record]) -> str:
    """The Markdown of a run; `records` has at least one."""
    return f"{head(records[0])}\n{degradation_table(records)}\n"


def degradation_table(records: Sequence[Record]) -> str:
    """A line for each dependency and profile; empty for none."""
    columns: dict[str, Column] = {
        "hung": parameter("dependency"),
        "profile": parameter("profile"),
        "answers": value("measured", "answers"),
        f"first {FAILURES}, max ms": value("measured", "first_max_ms"),
        f"{FAILURES + 1} to {QUESTIONS}, p95 ms": value("measured", "later_p95_ms"),
        "legs not OK": lambda each: counts(table(each, "measured", "leg_states")),
        "errors": lambda each: counts(table(each, "errors")),
    }
    return table_of(select(records, DEGRADATION), columns)


if __name__ == "__main__":
    main()
