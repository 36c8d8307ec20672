"""The figures of simulated calls: the wait at the end of a turn, and the turns without memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from bench.harness.latency import Latency, curve_ms
from bench.harness.results import Record, Result, number, select, table
from bench.reports.report import figures, head, markdown_table
from bench.speed.recall.calls import Call, Plan
from trivium.conversation import Counts

RECALL = "recall"


def result_of(calls: Sequence[Call], plan: Plan) -> Result:
    """Summarises calls that were simulated at once."""
    waits_s = [seconds for call in calls for seconds in call.waits_s]
    counts = summed([call.counts for call in calls])
    return Result(
        scenario=RECALL,
        parameters={
            "calls": len(calls),
            "prefetch": plan.prefetch,
            "silence_ms": round(plan.silence_s * 1e3),
            "budget_ms": round(plan.budget_s * 1e3),
        },
        n=len(waits_s),
        latency=Latency.of(waits_s),
        measured={
            "ready_share": _share(counts.ready, counts),
            "nothing_share": _share(counts.late + counts.failed, counts),
            "late": counts.late,
            "failed": counts.failed,
            "empty": counts.empty,
            "transcripts_per_s": round(counts.sent / plan.seconds, 1),
            "written": counts.written,
            "write_failures": counts.write_failures,
            "curve_ms": curve_ms(waits_s),
        },
    )


def summed(counts: Sequence[Counts]) -> Counts:
    """The counts of several conversations as one."""
    names = [field.name for field in fields(Counts)]
    return Counts(**{name: sum(getattr(each, name) for each in counts) for name in names})


def summary(records: Sequence[Record]) -> str:
    """The Markdown of a run; `records` has at least one."""
    return f"{head(records[0])}\n{recall_table(records)}\n"


def recall_table(records: Sequence[Record]) -> str:
    """A line for each number of calls, with and without prefetch."""
    columns = (
        *("calls at once", "prefetch", "turns", "p50 ms", "p95 ms", "max ms"),
        *("ready", "nothing injected", "transcripts/s"),
    )
    return markdown_table(columns, [_row(each) for each in select(records, RECALL)])


def _row(record: Record) -> tuple[str, ...]:
    parameters = table(record, "parameters")
    return (
        str(parameters.get("calls")),
        "yes" if parameters.get("prefetch") else "no",
        figures(number(record, "n")),
        *(figures(number(record, "latency", f"{name}_ms")) for name in ("p50", "p95", "max")),
        *(
            f"{number(record, 'measured', f'{name}_share') or 0:.1%}"
            for name in ("ready", "nothing")
        ),
        figures(number(record, "measured", "transcripts_per_s")),
    )


def _share(count: int, counts: Counts) -> float:
    return round(count / counts.turns, 4) if counts.turns else 0.0
