"""The command `python -m bench.speed.faults`: lets stores and replicas fail under a steady load.

The stores fail under a service in the placement `single`, and the replicas of the index and of
the embedder in one in `split`, over the same data.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bench.harness import options
from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections
from bench.harness.load import Call, Run, leg_states, open_loop, poisson_arrivals
from bench.harness.results import Json, Record, Result, Take, number, percentile_ms, select, table
from bench.reports import plots
from bench.reports.recording import console, recorded
from bench.reports.report import Column, counted, parameter, table_of, value
from bench.speed.faults.dependencies import Dependency, Fault, in_each_placement
from bench.speed.loads import CALM_ANSWERS, LATE, Offered, capacity, is_whole_in_time, recovery
from trivium.values import Retrieval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAULT = "fault"
"""The scenario."""

BUDGET_S = 0.1
SHARE = 0.5
"""Of the capacity, which is measured first."""

CAPACITY_CALLS = 1000
BEFORE_S, AFTER_S = 3.0, 12.0
BIN_S = 0.5
"""The width of a step of the timeline."""


@click.command(context_settings=options.HELP)
@options.data
@options.measure("--seconds", 8.0, "How long each fault lasts.")
@options.out
def main(data: Path | None, seconds: float, out: Path) -> None:
    """Let stores and replicas fail in each way under half the capacity.

    Writes JSON, a summary and a picture.
    """
    collection = options.chosen(data)
    with recorded("faults", collection, out, summary, save_picture) as take:
        asyncio.run(in_each_placement(collection, partial(_fail_all, collection, seconds, take)))


async def _fail_all(
    collection: Collection,
    seconds: float,
    take: Take,
    connections: Connections,
    dependencies: Sequence[Dependency],
) -> None:
    queries = cycle(collection.queries)
    reached = await capacity(connections, queries, CAPACITY_CALLS)
    offered = Offered(connections, reached.throughput_per_s, BUDGET_S, seconds)
    for dependency in dependencies:
        for fault in Fault:
            if fault in dependency.faults:
                console.print(f"{dependency.name} {fault.value}")
                await recovery(offered.ask, queries, BUDGET_S)
                take(await observe(dependency, fault, offered, queries))


async def observe(
    dependency: Dependency, fault: Fault, offered: Offered, queries: Iterator[Query]
) -> Result:
    """Asks at a steady rate while a fault begins and ends, which it has when all is back."""
    rate_per_s = SHARE * offered.capacity_per_s
    total_s = BEFORE_S + offered.seconds + AFTER_S
    arrivals = poisson_arrivals(rate_per_s, max(1, round(rate_per_s * total_s)))
    started_at = time.perf_counter()
    load = asyncio.create_task(open_loop(offered.ask, queries, arrivals))
    try:
        await asyncio.sleep(BEFORE_S)
        began_s = time.perf_counter() - started_at
        try:
            await dependency.begin(fault)
            await asyncio.sleep(offered.seconds)
        finally:
            await dependency.end(fault)
        ended_s = time.perf_counter() - started_at
        run = await load
    finally:
        load.cancel()
    about: dict[str, Json] = {
        "dependency": dependency.name,
        "fault": fault.value,
        "budget_ms": round(BUDGET_S * 1e3),
        "rate_per_s": round(rate_per_s, 1),
    }
    return result_of(about, run.calls, began_s, ended_s)


# ---------------------------------------------------------------- figures


class Outcome(StrEnum):
    """The outcome of a call for its caller."""

    WHOLE = "whole"
    PARTIAL = "without some leg"
    REFUSED = "error at once"
    LATE = "late"


def outcome(call: Call[Retrieval]) -> Outcome:
    """The outcome of a call: an answer after its budget, or DEADLINE_EXCEEDED, is late."""
    if is_whole_in_time(call, BUDGET_S):
        return Outcome.WHOLE
    if call.seconds > BUDGET_S or call.code == LATE:
        return Outcome.LATE
    return Outcome.REFUSED if call.answer is None else Outcome.PARTIAL


def result_of(
    about: Mapping[str, Json], made: Iterable[Call[Retrieval]], began_s: float, ended_s: float
) -> Result:
    """Summarises the calls that were due while the dependency was faulty, and what came after."""
    calls = sorted(made, key=lambda call: call.due_s)
    during = Run([call for call in calls if began_s <= call.due_s < ended_s], ended_s - began_s)
    ended = Counter(map(outcome, during.calls))
    failed = [call.seconds for call in during.calls if call.answer is None]
    return during.result(
        FAULT,
        about,
        outcomes={each.value: ended[each] for each in Outcome},
        errors_p95_ms=percentile_ms(failed, 0.95, 1),
        leg_states=leg_states(answer for _, answer in during.answered),
        lasted_s=round(during.seconds, 2),
        began_s=round(began_s, 2),
        back_s=back_after(calls, ended_s),
        timeline=timeline(calls),
    )


def back_after(calls: Sequence[Call[Retrieval]], since_s: float) -> float | None:
    """Seconds until answers were whole and in time again; None if that was not seen.

    Calls are ordered by when they were due; the dependency was back at `since_s`.
    """
    calm: list[float] = []
    for call in calls:
        if call.due_s < since_s:
            continue
        calm = [*calm, call.due_s] if outcome(call) is Outcome.WHOLE else []
        if len(calm) == CALM_ANSWERS:
            return round(calm[0] - since_s, 2)
    return None


def timeline(calls: Sequence[Call[Retrieval]]) -> dict[str, Json]:
    """Calls by outcome, in steps of `BIN_S` from the first."""
    length = 1 + max((int(call.due_s / BIN_S) for call in calls), default=0)
    steps: dict[str, list[int]] = {each.value: [0] * length for each in Outcome}
    for call in calls:
        steps[outcome(call).value][int(call.due_s / BIN_S)] += 1
    return dict(steps)


def summary(records: Sequence[Record]) -> str:
    """The outcomes of each fault, then its legs and errors."""
    columns: dict[str, Column] = {
        "fault": fault_name,
        "legs not OK": counted("measured", "leg_states"),
        "errors": counted("errors"),
    }
    return f"{faults_table(records)}\n\n{table_of(select(records, FAULT), columns)}"


def faults_table(records: Sequence[Record]) -> str:
    """A line for each fault; empty for none."""

    def share(ended: Outcome) -> Column:
        def written(record: Record) -> str:
            count = number(record, "measured", "outcomes", ended.value) or 0.0
            return f"{count / (number(record, 'n') or 1.0):.1%}"

        return written

    columns: dict[str, Column] = {
        "fault": fault_name,
        "calls": value("n"),
        **{each.value: share(each) for each in Outcome},
        "answers p95 ms": value("latency", "p95_ms"),
        "errors p95 ms": value("measured", "errors_p95_ms"),
        "as before after, s": value("measured", "back_s"),
    }
    return table_of(select(records, FAULT), columns)


def fault_name(record: Record) -> str:
    """The name of a fault, such as "neo4j hung"."""
    return f"{parameter('dependency')(record)} {parameter('fault')(record)}"


COLOURS = {
    Outcome.WHOLE: "#5b9279",
    Outcome.PARTIAL: "#d9a441",
    Outcome.REFUSED: "#2f6690",
    Outcome.LATE: "#b5536c",
}
COLUMNS = 2


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a panel for each fault, how calls ended over time."""
    faults = select(records, FAULT)
    rows = -(-len(faults) // COLUMNS)
    with plots.picture(path, 6.8 * COLUMNS, 2.5 * rows + 0.6) as figure:
        for place, fault in enumerate(faults, start=1):
            unit = "s; between the lines the fault lasted"
            axes = plots.panel(figure, place, fault_name(fault), unit, rows, COLUMNS)
            _draw(axes, fault)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, frameon=False, ncols=len(labels), loc="outside upper right")


def _draw(axes: Axes, fault: Record) -> None:
    steps = table(fault, "measured", "timeline")
    base: list[float] = []
    for ended, colour in COLOURS.items():
        heights = [count / BIN_S for count in cast(Sequence[int], steps[ended.value])]
        base = base or [0.0] * len(heights)
        starts = [step * BIN_S for step in range(len(heights))]
        axes.bar(starts, heights, BIN_S, bottom=base, align="edge", color=colour, label=ended.value)
        base = [low + height for low, height in zip(base, heights, strict=True)]
    began_s = number(fault, "measured", "began_s") or 0.0
    for at_s in (began_s, began_s + (number(fault, "measured", "lasted_s") or 0.0)):
        axes.axvline(at_s, color=plots.INK, linewidth=1, linestyle=":")
    axes.set_ylabel("calls a second", color=plots.MUTED)


if __name__ == "__main__":
    main()
