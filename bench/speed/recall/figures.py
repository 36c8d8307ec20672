"""The figures of simulated calls: the wait at the end of a turn, and the turns without memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from bench.harness.latency import Latency, curve_ms
from bench.harness.results import Record, Result, select, table
from bench.reports import plots
from bench.reports.report import Column, head, latency, parameter, percent, table_of, value
from bench.speed.recall.calls import BUDGET_S, SILENCE_S, Call, Plan
from trivium.conversation import Counts

RECALL = "recall"


def result_of(calls: Sequence[Call], plan: Plan) -> Result:
    """Summarises calls that were simulated at once."""
    waits_s = [seconds for call in calls for seconds in call.waits_s]
    counts = Counts(
        **{
            field.name: sum(getattr(call.counts, field.name) for call in calls)
            for field in fields(Counts)
        }
    )
    return Result(
        scenario=RECALL,
        parameters={
            "calls": len(calls),
            "prefetch": plan.prefetch,
            "silence_ms": round(SILENCE_S * 1e3),
            "budget_ms": round(BUDGET_S * 1e3),
        },
        n=len(waits_s),
        latency=Latency.of(waits_s),
        measured={
            "ready_share": _share(counts.ready, counts),
            "nothing_share": _share(counts.late + counts.failed, counts),
            "transcripts_per_s": round(counts.sent / plan.seconds, 1),
            "write_failures": counts.write_failures,
            "curve_ms": curve_ms(waits_s),
        },
    )


def _share(count: int, counts: Counts) -> float:
    return round(count / counts.turns, 4) if counts.turns else 0.0


def summary(records: Sequence[Record]) -> str:
    """The Markdown of a run; `records` has at least one."""
    return f"{head(records[0])}\n{recall_table(records)}\n"


def recall_table(records: Sequence[Record]) -> str:
    """A line for each number of calls, with and without prefetch."""
    columns: dict[str, Column] = {
        "calls at once": parameter("calls"),
        "prefetch": lambda each: "yes" if table(each, "parameters").get("prefetch") else "no",
        "turns": value("n"),
        **latency("p50", "p95", "max"),
        "ready": percent("measured", "ready_share"),
        "nothing injected": percent("measured", "nothing_share"),
        "transcripts/s": value("measured", "transcripts_per_s"),
    }
    return table_of(select(records, RECALL), columns)


def save_picture(records: Sequence[Record], path: Path) -> None:
    """Draws a panel with prefetch and one without; a line for each number of calls."""
    figure = plots.canvas(13.6, 4.9)
    shared = None
    for place, (prefetch, title) in enumerate(((True, "With prefetch"), (False, "Without")), 1):
        axes = shared = figure.add_subplot(1, 2, place, sharey=shared)
        plots.prepare(axes)
        found = [
            each
            for each in select(records, RECALL)
            if table(each, "parameters").get("prefetch") is prefetch
        ]
        for record, colour in zip(found, plots.COLOURS, strict=False):
            curve = table(record, "measured").get("curve_ms")
            if isinstance(curve, list):
                label = f"{table(record, 'parameters').get('calls')} calls at once"
                axes.plot(range(1, 101), curve, color=colour, label=label, linewidth=2)
        axes.set_ylim(bottom=0)
        if found:
            axes.legend(frameon=False, fontsize=8, labelcolor=plots.INK)
        plots.head(axes, f"{title}, ms from the final transcript to the block", "percentile")
    plots.save(figure, path)
