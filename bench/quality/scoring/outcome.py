"""Summarises the answers under one configuration: each metric with its interval, by group too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.harness.collection import Query
from bench.harness.connections import LIMIT
from bench.harness.latency import Latency
from bench.harness.results import Json, Result
from bench.quality.scoring.evaluate import Answers, Scored
from bench.quality.scoring.intervals import mean_interval, paired_difference
from bench.quality.scoring.metrics import ALL_METRICS

SCENARIO = "quality"

GROUPINGS: Mapping[str, Callable[[Query], str]] = {
    "by_stratum": lambda query: query.stratum,
    "by_category": lambda query: query.category,
}
"""The groupings of questions."""


def outcome(
    answers: Answers,
    baseline: Answers | None = None,
    command: str = "",
) -> Result:
    """The result of one configuration.

    Args:
        answers: Under the configuration; at least one.
        baseline: The answers to the same questions that it is compared with; None, or itself,
            compares nothing.
        command: What makes this result again.
    """
    against = None if baseline is answers else baseline
    run, scored = answers.run, answers.scored
    server = [each.statistics.total.total_seconds() for _, each in run.answered]
    return Result(
        scenario=SCENARIO,
        parameters={
            "way": answers.config.name,
            "profile": answers.config.profile,
            "changes": dict(answers.config.changes),
            "legs": list(answers.legs),
            "limit": LIMIT,
            "baseline": "" if against is None else against.config.name,
            "command": command,
        },
        n=len(scored),
        throughput_per_s=run.throughput_per_s,
        latency=run.latency,
        errors=run.errors,
        measured={
            **_estimates(answers, against, range(len(scored))),
            **{
                name: _by_group(answers, against, group)
                for name, group in GROUPINGS.items()
                if any(group(each.query) for each in scored)
            },
            "marks": _marks(scored),
            "cpu_ms": answers.cpu_ms,
            "server": dict(Latency.of(server).as_record()) if server else None,
            "failed": sum(bool(each.failed) for each in scored),
            "partial": sum(bool(each.partial) for each in scored),
            "leg_faults": Counter(fault for each in scored for fault in each.partial),
        },
    )


def _marks(scored: Sequence[Scored]) -> dict[str, Json]:
    right, wrong = (sum(each.marks[place] for each in scored) for place in range(2))
    return {"right": right, "wrong": wrong}


def _by_group(
    answers: Answers, baseline: Answers | None, group: Callable[[Query], str]
) -> dict[str, Json]:
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(answers.scored):
        places[group(each.query)].append(place)
    return {
        name: {"n": len(of_group), **_estimates(answers, baseline, of_group)}
        for name, of_group in sorted(places.items())
    }


def _estimates(
    answers: Answers, baseline: Answers | None, places: Sequence[int]
) -> dict[str, Json]:
    """Each metric of the questions at these places, and its difference to the baseline."""
    means: dict[str, Json] = {}
    differences: dict[str, Json] = {}
    for metric, of_metric in _by_metric(answers, places):
        clusters = [answers.scored[place].query.tenant for place in of_metric]
        now = [answers.scored[place].scores[metric] for place in of_metric]
        means[metric] = mean_interval(now, clusters).as_record()
        if baseline is not None:
            before = [baseline.scored[place].scores[metric] for place in of_metric]
            differences[metric] = paired_difference(now, before, clusters).as_record()
    return means if baseline is None else {**means, "difference": differences}


def _by_metric(answers: Answers, places: Sequence[int]) -> Iterator[tuple[str, Sequence[int]]]:
    """Each metric, with the questions that have it."""
    for metric in ALL_METRICS:
        of_metric = [place for place in places if metric in answers.scored[place].scores]
        if of_metric:
            yield metric, of_metric
