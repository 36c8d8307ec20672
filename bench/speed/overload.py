"""The command `python -m bench.speed.overload`: loads the service beyond its capacity."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.harness import options
from bench.harness.collection import Query
from bench.harness.connections import Connections
from bench.harness.results import Record, Take, number, select, table
from bench.harness.sample import TENANTS
from bench.harness.writing import loaded
from bench.reports import plots
from bench.reports.recording import recorded
from bench.reports.report import Column, counted, figures, latency, percent, table_of, value
from bench.speed.loads import (
    CAPACITY_CALLERS,
    NEIGHBOUR,
    OVERLOAD,
    WRITES,
    Offered,
    capacity,
    recovery,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPACITY = "capacity"
SHARES = (0.5, 1, 1.5, 2, 3)
"""Of the capacity."""

WRITERS = 8
"""How many batches a tenant writes at a time that floods the service with writes."""

CALLERS = 64
"""For as many there are connections."""


@click.command(context_settings=options.HELP)
@options.data
@options.address
@options.count("--tenants", TENANTS, "How often the sample conversation is multiplied.")
@options.numbers("--budgets", "50,100,300", "What callers give each call, in ms.")
@options.measure("--seconds", 20.0, "How long each load lasts.")
@options.count("--calls", 1000, "Calls to measure the capacity, after as many to warm up.")
@options.out
def main(
    data: Path | None,
    address: str | None,
    tenants: int,
    budgets: Sequence[float],
    seconds: float,
    calls: int,
    out: Path,
) -> None:
    """Load the service beyond its capacity, and write JSON, a summary and a picture."""
    collection = options.chosen(data, tenants)
    budgets_s = [budget / 1e3 for budget in budgets]

    async def run(take: Take) -> None:
        async with loaded(collection, address, CALLERS) as (_, connections):
            await measure(connections, collection.queries, calls, budgets_s, seconds, take)

    with recorded(OVERLOAD, collection, out, summary, save_picture) as take:
        asyncio.run(run(take))


async def measure(
    connections: Connections,
    queries: Sequence[Query],
    calls: int,
    budgets_s: Sequence[float],
    seconds: float,
    take: Take,
) -> None:
    """Measures the capacity, each share of it with each budget, and a tenant during a flood."""
    in_turn, tenants = cycle(queries), _queries_of_two(queries)
    reached = await capacity(connections, in_turn, calls)
    take(reached.result(CAPACITY, {"callers": CAPACITY_CALLERS}))
    for budget_s in budgets_s:
        offered = Offered(connections, reached.throughput_per_s, budget_s, seconds)
        await recovery(offered.ask, in_turn, budget_s)
        for share in SHARES:
            take(await offered.load(in_turn, share))
        for flood in (0.0, max(SHARES)) if len(tenants) == 2 else ():
            take(await offered.during_a_flood(tenants[0], tenants[1], flood))
    # At the end, since what was written is projected for a while.
    offered = Offered(connections, reached.throughput_per_s, max(budgets_s), seconds)
    for writers in (0, WRITERS):
        take(await offered.during_writes(in_turn, writers))


def _queries_of_two(queries: Sequence[Query]) -> Sequence[cycle[Query]]:
    """The queries of the first two tenants, each again and again; fewer if there are fewer."""
    by_tenant: dict[str, list[Query]] = {}
    for query in queries:
        by_tenant.setdefault(query.tenant, []).append(query)
    return [cycle(each) for each in list(by_tenant.values())[:2]]


# ---------------------------------------------------------------- figures


def summary(records: Sequence[Record]) -> str:
    """All tables of a run."""
    legs = {"load": load_name, "legs not OK": counted("measured", "leg_states")}
    faults = table_of(select(records, OVERLOAD), legs)
    tables = (overload_table(records), neighbours_table(records), writes_table(records), faults)
    return "\n\n".join(filter(None, tables))


def overload_table(records: Sequence[Record]) -> str:
    """A line for each load, whose share is that of the measured capacity; empty for none."""
    capacity = next((number(each, "throughput_per_s") for each in select(records, CAPACITY)), None)
    columns = {
        f"share of {figures(capacity)}/s": load_name,
        **_ANSWERS,
        "refused p95": value("measured", "refused_p95_ms"),
        "late": percent("measured", "late_share"),
        "over, s": value("measured", "recovery_s"),
    }
    return table_of(select(records, OVERLOAD), columns)


def neighbours_table(records: Sequence[Record]) -> str:
    """A line for each load of another tenant; empty for none."""
    late = percent("measured", "late_share")
    columns = {"load of another tenant": load_name, **_ANSWERS, "late": late}
    return table_of(select(records, NEIGHBOUR), columns)


def writes_table(records: Sequence[Record]) -> str:
    """A line for each number of writers of another tenant; empty for none."""
    columns: dict[str, Column] = {
        "batches at a time of another tenant": value("parameters", "share"),
        "items/s": value("measured", "written_per_s"),
        "batches refused": value("measured", "batches_refused"),
        "answers p50 ms": value("latency", "p50_ms"),
        "p95 ms": value("latency", "p95_ms"),
        "in time/s": value("measured", "goodput_per_s"),
        "visible after, p50 s": value("measured", "visible_p50_s"),
        "p95 s": value("measured", "visible_p95_s"),
    }
    return table_of(select(records, WRITES), columns)


def load_name(record: Record) -> str:
    """The name of a load: its budget, and its share of the capacity."""
    parameters = table(record, "parameters")
    return f"{parameters.get('budget_ms')} ms, {parameters.get('share')}x"


_ANSWERS: Mapping[str, Column] = {
    "offered/s": value("parameters", "rate_per_s"),
    "in time/s": value("measured", "goodput_per_s"),
    "whole/s": value("measured", "whole_per_s"),
    **latency("p50", "p95"),
    "refused": percent("measured", "refused_share"),
}


PANELS = (
    ("Answered in time", "a second", ("measured", "goodput_per_s")),
    ("Answered in time by every leg", "a second", ("measured", "whole_per_s")),
    ("p95 of the answers", "ms, from when each was due", ("latency", "p95_ms")),
    ("p95 of the refusals", "ms, from when each was due", ("measured", "refused_p95_ms")),
)
"""Title, unit and place of the figure that each panel shows, over the share of the capacity."""


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws the loads, a line for each budget."""
    with plots.picture(path, 13.6, 8.8) as figure:
        for place, (title, unit, figure_at) in enumerate(PANELS, start=1):
            offered = "offered load, as a multiple of the capacity"
            axes = plots.panel(figure, place, f"{title}, {unit}", offered, rows=2, columns=2)
            _draw(axes, select(records, OVERLOAD), figure_at)


def _draw(axes: Axes, loads: Sequence[Record], figure_at: Sequence[str]) -> None:
    budgets = sorted({number(load, "parameters", "budget_ms") or 0.0 for load in loads})
    for budget, colour in zip(budgets, plots.COLOURS, strict=False):
        points = [
            (number(load, "parameters", "share") or 0.0, height)
            for load in loads
            if number(load, "parameters", "budget_ms") == budget
            and (height := number(load, *figure_at)) is not None
        ]
        if points:
            label = f"budget of {budget:.0f} ms"
            axes.plot(*zip(*points, strict=True), "o-", color=colour, label=label, linewidth=2)
    axes.set_ylim(bottom=0)
    plots.legend(axes)


if __name__ == "__main__":
    main()
