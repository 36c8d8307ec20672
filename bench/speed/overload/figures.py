"""The figures of a load above capacity: what was answered in time, cut, refused and late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.latency import percentile
from bench.harness.load import Call, Run
from bench.harness.results import Json, Record, Result, number, select, table
from bench.reports import plots
from bench.reports.report import Column, counts, figures, head, latency, percent, table_of, value
from serving.pipeline.retrieval.legs.leg import NOTHING_TO_LOOK_UP
from trivium.values import LegState, Retrieval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OVERLOAD = "overload"
CAPACITY = "capacity"
NEIGHBOUR = "neighbour"
"""The calls of one tenant while another one flooded the service."""

WRITES = "during writes"
"""The calls of tenants while another one wrote as much as it could."""

REFUSED = "RESOURCE_EXHAUSTED"
LATE = "DEADLINE_EXCEEDED"


def result_of(
    run: Run[Retrieval],
    *,
    share: float,
    rate_per_s: float,
    budget_s: float,
    offered_s: float,
    recovery_s: float | None,
) -> Result:
    """Summarises a load.

    Args:
        run: All calls; times count from when each was due.
        share: Of the capacity.
        rate_per_s: The rate of the arrivals.
        budget_s: The time that each caller gave its call.
        offered_s: For how long calls arrived.
        recovery_s: From the last arrival until answers were whole and in time again; None if that
            was not awaited to its end.
    """
    refused = [call.seconds for call in run.calls if call.code == REFUSED]
    in_time = [call for call in run.calls if call.answer is not None and call.seconds <= budget_s]
    answers = [answer for _, answer in run.answered]
    return Result(
        scenario=OVERLOAD,
        parameters={
            "budget_ms": round(budget_s * 1e3),
            "share": share,
            "rate_per_s": round(rate_per_s, 1),
        },
        n=len(run.calls),
        throughput_per_s=round(len(answers) / offered_s, 2),
        latency=run.latency,
        errors=run.errors,
        measured={
            "goodput_per_s": round(len(in_time) / offered_s, 2),
            "whole_per_s": round(
                sum(is_whole_in_time(call, budget_s) for call in in_time) / offered_s, 2
            ),
            "refused_share": _share(len(refused), run),
            "refused_p50_ms": _milliseconds(refused, 0.50),
            "refused_p95_ms": _milliseconds(refused, 0.95),
            "late_share": _share(run.errors.get(LATE, 0), run),
            "leg_states": leg_states(answers),
            "recovery_s": None if recovery_s is None else round(recovery_s, 2),
        },
    )


def is_whole_in_time(call: Call[Retrieval], budget_s: float) -> bool:
    """Whether it was answered in time, by every leg of the profile that has something to search."""
    return (
        call.answer is not None
        and call.seconds <= budget_s
        and all(
            report.state is LegState.OK or report.reason == NOTHING_TO_LOOK_UP
            for report in call.answer.leg_reports
        )
    )


def leg_states(answers: Sequence[Retrieval]) -> dict[str, Json]:
    """The number of times that each leg ended otherwise than OK, such as {"graph: skipped": 3}."""
    return dict(
        sorted(
            Counter(
                f"{report.leg}: {report.state.value}"
                for answer in answers
                for report in answer.leg_reports
                if report.state is not LegState.OK
            ).items()
        )
    )


def summary(records: Sequence[Record]) -> str:
    """The Markdown of a run; `records` has at least one."""
    legs: dict[str, Column] = {
        "load": load_name,
        "legs not OK": lambda each: counts(table(each, "measured", "leg_states")),
    }
    faults = table_of(select(records, OVERLOAD), legs)
    tables = (overload_table(records), neighbours_table(records), writes_table(records), faults)
    return "\n\n".join((head(records[0]).rstrip(), *filter(None, tables))) + "\n"


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


def _share(count: int, run: Run[Retrieval]) -> float:
    return round(count / len(run.calls), 4) if run.calls else 0.0


def _milliseconds(seconds: Sequence[float], share: float) -> float | None:
    return round(percentile(sorted(seconds), share) * 1e3, 2) if seconds else None


# ---------------------------------------------------------------- picture

PANELS = (
    ("Answered in time", "a second", ("measured", "goodput_per_s")),
    ("Answered in time by every leg", "a second", ("measured", "whole_per_s")),
    ("p95 of the answers", "ms, from when each was due", ("latency", "p95_ms")),
    ("p95 of the refusals", "ms, from when each was due", ("measured", "refused_p95_ms")),
)
"""Title, unit and place of the figure that each panel shows, over the share of the capacity."""


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws the loads, a line for each budget; writes nothing if there are none."""
    loads = select(records, OVERLOAD)
    if not loads:
        return
    figure = plots.canvas(13.6, 8.8)
    for place, (title, unit, figure_at) in enumerate(PANELS, start=1):
        axes = figure.add_subplot(2, 2, place)
        plots.prepare(axes)
        _draw(axes, loads, figure_at)
        plots.head(axes, f"{title}, {unit}", "offered load, as a multiple of the capacity")
    plots.save(figure, path)


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
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, labelcolor=plots.INK)
