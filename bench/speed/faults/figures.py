"""The figures of a fault: what was answered meanwhile, how, and when all was as before."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bench.harness.latency import Latency, percentile
from bench.harness.load import Call, Run
from bench.harness.results import Json, Record, Result, number, select, table
from bench.reports import plots
from bench.reports.report import Column, counts, head, parameter, table_of, value
from bench.speed.faults.dependencies import Fault
from bench.speed.overload.figures import LATE, is_whole_in_time, leg_states
from bench.speed.overload.loads import CALM_ANSWERS
from trivium.values import Retrieval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAULT = "fault"
BIN_S = 0.5
"""The width of a step of the timeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The calls around a fault.

    `began_s` and `ended_s` are in seconds from the first call; the fault has ended when the
    dependency is back.
    """

    dependency: str
    fault: Fault
    run: Run[Retrieval]
    began_s: float
    ended_s: float


class Outcome(StrEnum):
    """The outcome of a call for its caller."""

    WHOLE = "whole"
    PARTIAL = "without some leg"
    REFUSED = "error at once"
    LATE = "late"


def outcome(call: Call[Retrieval], budget_s: float) -> Outcome:
    """The outcome of a call: an answer after its budget, or DEADLINE_EXCEEDED, is late."""
    if is_whole_in_time(call, budget_s):
        return Outcome.WHOLE
    if call.seconds > budget_s or call.code == LATE:
        return Outcome.LATE
    return Outcome.REFUSED if call.answer is None else Outcome.PARTIAL


def result_of(observed: Observed, budget_s: float, rate_per_s: float) -> Result:
    """Summarises the calls that were due while the dependency was faulty, and what came after."""
    calls = sorted(observed.run.calls, key=lambda call: call.due_s)
    during = [call for call in calls if observed.began_s <= call.due_s < observed.ended_s]
    ended = Counter(outcome(call, budget_s) for call in during)
    answered = [call for call in during if call.answer is not None]
    failed = sorted(call.seconds for call in during if call.answer is None)
    return Result(
        scenario=FAULT,
        parameters={
            "dependency": observed.dependency,
            "fault": observed.fault.value,
            "budget_ms": round(budget_s * 1e3),
            "rate_per_s": round(rate_per_s, 1),
        },
        n=len(during),
        latency=Latency.of([call.seconds for call in answered]) if answered else None,
        errors=dict(Counter(call.code for call in during if call.code)),
        measured={
            "outcomes": {each.value: ended[each] for each in Outcome},
            "errors_p95_ms": round(percentile(failed, 0.95) * 1e3, 1) if failed else None,
            "leg_states": leg_states([call.answer for call in during if call.answer is not None]),
            "lasted_s": round(observed.ended_s - observed.began_s, 2),
            "began_s": round(observed.began_s, 2),
            "back_s": back_after(calls, observed.ended_s, budget_s),
            "timeline": timeline(calls, budget_s),
        },
    )


def back_after(calls: Sequence[Call[Retrieval]], since_s: float, budget_s: float) -> float | None:
    """Seconds until answers were whole and in time again; None if that was not seen.

    Args:
        calls: By when they were due.
        since_s: When the dependency was back.
        budget_s: The time that each call had.
    """
    calm: list[float] = []
    for call in calls:
        if call.due_s < since_s:
            continue
        calm = [*calm, call.due_s] if is_whole_in_time(call, budget_s) else []
        if len(calm) == CALM_ANSWERS:
            return round(calm[0] - since_s, 2)
    return None


def timeline(calls: Sequence[Call[Retrieval]], budget_s: float) -> dict[str, Json]:
    """Calls by outcome, in steps of `BIN_S` from the first."""
    length = 1 + max((math.floor(call.due_s / BIN_S) for call in calls), default=0)
    steps: dict[str, list[int]] = {each.value: [0] * length for each in Outcome}
    for call in calls:
        steps[outcome(call, budget_s).value][math.floor(call.due_s / BIN_S)] += 1
    return dict(steps)


def summary(records: Sequence[Record]) -> str:
    """The Markdown of a run; `records` has at least one."""
    columns: dict[str, Column] = {
        "fault": fault_name,
        "legs not OK": lambda each: counts(table(each, "measured", "leg_states")),
        "errors": lambda each: counts(table(each, "errors")),
    }
    legs = table_of(select(records, FAULT), columns)
    return f"{head(records[0])}\n{faults_table(records)}\n\n{legs}\n"


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


# ---------------------------------------------------------------- picture

COLOURS = {
    Outcome.WHOLE: "#5b9279",
    Outcome.PARTIAL: "#d9a441",
    Outcome.REFUSED: "#2f6690",
    Outcome.LATE: "#b5536c",
}
COLUMNS = 2


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a panel for each fault, how calls ended over time; writes nothing if there are none."""
    faults = select(records, FAULT)
    if not faults:
        return
    rows = -(-len(faults) // COLUMNS)
    figure = plots.canvas(6.8 * COLUMNS, 2.5 * rows + 0.6)
    for place, fault in enumerate(faults, start=1):
        axes = figure.add_subplot(rows, COLUMNS, place)
        plots.prepare(axes)
        _draw(axes, fault)
        plots.head(axes, fault_name(fault), "s; between the lines the fault lasted")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=len(labels), loc="outside upper right")
    plots.save(figure, path)


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
