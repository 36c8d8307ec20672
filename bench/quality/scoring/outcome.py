"""Summarises the answers of a way: each metric with its interval, whole and by group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bench.harness.collection import Query
from bench.harness.connections import LIMIT
from bench.harness.results import Json, Result
from bench.quality.scoring.evaluate import Answers
from bench.quality.scoring.intervals import mean_interval, paired_difference
from bench.quality.scoring.metrics import METRICS

SCENARIO = "quality"

_Value = TypeVar("_Value")

GROUPINGS: Mapping[str, Callable[[Query], str]] = {
    "by_stratum": lambda query: query.stratum,
    "by_category": lambda query: query.category,
}
"""The groupings of questions."""


def outcome(
    answers: Answers,
    baseline: Answers | None = None,
    *,
    limit: int = LIMIT,
    command: str = "",
) -> Result:
    """The result of one way.

    Args:
        answers: Of the way; at least one.
        baseline: The answers of the way it is compared with, to the same questions; None, or
            itself, compares nothing.
        limit: How many hits were asked for.
        command: What makes this result again.
    """
    against = None if baseline is answers else baseline
    everything = range(len(answers.scored))
    measured: dict[str, Json] = {**_estimates(answers, everything)}
    if against is not None:
        measured["difference"] = _differences(answers, against, everything)
    measured |= {
        name: _by_group(answers, against, group)
        for name, group in GROUPINGS.items()
        if any(group(each.query) for each in answers.scored)
    }
    server, run = answers.server, answers.run
    return Result(
        scenario=SCENARIO,
        parameters={
            "way": answers.way.name,
            "profile": answers.way.profile,
            "changes": dict(answers.way.changes),
            "legs": list(answers.legs),
            "limit": limit,
            "baseline": "" if against is None else against.way.name,
            "command": command,
        },
        n=len(answers.scored),
        throughput_per_s=None if run is None else run.throughput_per_s,
        latency=None if run is None else run.latency,
        errors={} if run is None else run.errors,
        measured={
            **measured,
            "server": None if server is None else dict(server.as_record()),
            "failed": answers.failed,
            "partial": answers.partial,
            "leg_faults": dict(answers.leg_faults),
        },
    )


def _by_group(
    answers: Answers, baseline: Answers | None, group: Callable[[Query], str]
) -> dict[str, Json]:
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(answers.scored):
        places[group(each.query)].append(place)
    groups: dict[str, Json] = {}
    for name, of_group in sorted(places.items()):
        of_name: dict[str, Json] = {"n": len(of_group), **_estimates(answers, of_group)}
        if baseline is not None:
            of_name["difference"] = _differences(answers, baseline, of_group)
        groups[name] = of_name
    return groups


def _estimates(answers: Answers, places: Sequence[int]) -> dict[str, Json]:
    clusters = _at(answers.clusters, places)
    return {
        metric: mean_interval(_at(answers.values(metric), places), clusters).as_record()
        for metric in METRICS
    }


def _differences(answers: Answers, baseline: Answers, places: Sequence[int]) -> dict[str, Json]:
    clusters = _at(answers.clusters, places)
    return {
        metric: paired_difference(
            _at(answers.values(metric), places), _at(baseline.values(metric), places), clusters
        ).as_record()
        for metric in METRICS
    }


def _at(values: Sequence[_Value], places: Sequence[int]) -> list[_Value]:
    return [values[place] for place in places]
