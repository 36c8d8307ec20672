"""The outcome of a run as a table, and as a record like those of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

from bench.harness.results import Result, append_record
from bench.reports.environment import describe
from tests.chaos.checker import Kind
from tests.chaos.run import Outcome

SCENARIO = "chaos"
LOG = "operations.jsonl"


def result_of(outcome: Outcome) -> Result:
    """The figures of a run."""
    kinds = [finding.kind for finding in outcome.findings]
    return Result(
        scenario=SCENARIO,
        parameters={"placement": outcome.placement, "seed": outcome.seed},
        n=outcome.rounds,
        errors=dict(outcome.failures),
        measured={
            "seconds": round(outcome.seconds),
            "faults": dict(outcome.faults),
            "operations": len(outcome.writes) + outcome.reads,
            "acknowledged": outcome.acknowledged,
            "retried": sum(write.attempts > 1 for write in outcome.writes if write.acknowledged),
            "given_up": len(outcome.writes) - outcome.acknowledged,
            "answers": outcome.reads,
            "checks": outcome.checks,
            "rows": outcome.rows,
            **{kind.name.lower(): kinds.count(kind) for kind in Kind},
        },
    )


def table(outcome: Outcome) -> str:
    """All figures of a run, one on each line, and what was found."""
    result = result_of(outcome)
    lines = [f"{name.replace('_', ' '):<14} {value}" for name, value in result.measured.items()]
    return "\n".join(
        [
            f"placement {outcome.placement}, {outcome.rounds} rounds, seed {outcome.seed}",
            *lines,
            *map(str, outcome.findings),
        ]
    )


def write_results(folder: Path, outcome: Outcome) -> None:
    """Adds the figures, and every write with its attempts, to the folder of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    append_record(folder, result_of(outcome).as_record(describe()))
    with (folder / f"{outcome.placement}-{LOG}").open("w", encoding="utf-8") as log:
        for write in outcome.writes:
            line = {
                "tenant": write.group.tenant,
                "group": write.group.name,
                "version": write.version,
                "started": write.started,
                "ended": write.ended if write.acknowledged else None,
                "token": write.token,
                "attempts": write.attempts,
            }
            log.write(json.dumps(line) + "\n")
