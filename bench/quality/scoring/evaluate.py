"""Sends judged questions under a run configuration, scores the answers, and summarises them.

A failed answer scores 0, and an answer that lacks a leg scores what it found. Both are marked and
counted, so that faults of the service are not mistaken for bad ranking.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.harness.collection import Query
from bench.harness.connections import LIMIT, Connections
from bench.harness.load import Run, closed_loop, faults_of
from bench.harness.processes import ServiceProcesses, cpu_over
from bench.harness.results import Json, Latency, Result
from bench.quality.run_config import RunConfig
from bench.quality.scoring.intervals import mean_interval, paired_difference
from bench.quality.scoring.metrics import (
    ALL_METRICS,
    BRIEFING,
    CURRENT_FIRST,
    KEPT,
    METRICS,
    briefed_segments,
    current_first,
    kept,
    marks,
    ranked_segments,
    scores,
)
from trivium.errors import TriviumError
from trivium.values import Retrieval

TIMEOUT_S = 30.0
"""So long that no deadline cuts a leg: ranking is measured here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The scored answer to one question.

    Args:
        query: The question.
        ranked: The segments found, best first.
        scores: Every metric by its name.
        failed: The code of the error that came instead of an answer; empty for none.
        partial: The legs that ended other than they should, and how.
        marks: How many hits are rightly marked as outdated, and how many wrongly.
    """

    query: Query
    ranked: Sequence[str] = ()
    scores: dict[str, float]
    failed: str = ""
    partial: Sequence[str] = ()
    marks: tuple[int, int] = (0, 0)

    @property
    def fault(self) -> str:
        """The fault, in words; empty for nothing."""
        return f"failed: {self.failed}" if self.failed else ", ".join(self.partial)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to all questions under one configuration, in the order of the questions.

    Args:
        config: The configuration.
        legs: The legs that it has.
        scored: One for each question.
        run: The calls, for their times and errors.
        cpu_ms: Of an answer, the client's included; None for a service that was not started here.
    """

    config: RunConfig
    legs: Sequence[str]
    scored: Sequence[Scored]
    run: Run[Retrieval]
    cpu_ms: float | None = None


async def evaluate(
    connections: Connections,
    queries: Sequence[Query],
    config: RunConfig,
    legs: Sequence[str],
    processes: ServiceProcesses | None = None,
) -> Answers:
    """Sends judged questions, no two of one id, under a configuration, one at a time.

    What was written must be projected by now. `legs` are for the record; with the processes of the
    service, the CPU time of an answer is measured.
    """
    scored: dict[str, Scored] = {}

    async def ask(query: Query) -> Retrieval:
        try:
            retrieval = await connections.ask(
                query,
                timeout=TIMEOUT_S,
                briefing=BRIEFING,
                profile=config.profile,
                profile_overrides=config.changes,
            )
        except TriviumError as error:
            scored[query.id] = failed(query, error)
            raise
        scored[query.id] = score(query, retrieval)
        return retrieval

    asking, cpu_ms = closed_loop(ask, queries, 1), None
    if processes is None:
        run = await asking
    else:
        run, use = await cpu_over(processes.cpu, asking)
        cpu_ms = sum(use.by_role.values()) * 1e3 / len(queries)
    return Answers(config, tuple(legs), [scored[query.id] for query in queries], run, cpu_ms)


def score(query: Query, retrieval: Retrieval) -> Scored:
    """Scores an answer."""
    ranked = ranked_segments(retrieval.hits)
    found = scores(ranked, query.relevant, briefed_segments(retrieval))
    if query.outdated:
        found[CURRENT_FIRST] = current_first(ranked, query.current, query.outdated)
    if query.holds:
        found[KEPT] = kept(ranked, query.holds, query.traps)
    marked = [hit.id for hit in retrieval.hits if hit.outdated_by is not None]
    return Scored(
        query=query,
        ranked=ranked,
        scores=found,
        partial=faults_of(retrieval),
        marks=marks(marked, query.outdated, query.holds | query.current),
    )


def failed(query: Query, error: TriviumError) -> Scored:
    """Scores an error that came instead of an answer."""
    metrics = [*METRICS, *[CURRENT_FIRST] * bool(query.outdated), *[KEPT] * bool(query.holds)]
    return Scored(query=query, scores=dict.fromkeys(metrics, 0.0), failed=error.code.name)


# ---------------------------------------------------------------- results

SCENARIO = "quality"

GROUPINGS: Mapping[str, Callable[[Query], str]] = {
    "by_stratum": lambda query: query.stratum,
    "by_category": lambda query: query.category,
}
"""The groupings of questions."""


def outcome(answers: Answers, baseline: Answers, command: str) -> Result:
    """The result of one configuration, and its differences to the baseline, unless it is this.

    `command` makes this result again.
    """
    against = None if baseline is answers else baseline
    run, scored = answers.run, answers.scored
    server = [each.statistics.total.total_seconds() for _, each in run.answered]
    right, wrong = (sum(each.marks[place] for each in scored) for place in range(2))
    return run.result(
        SCENARIO,
        {
            "way": answers.config.name,
            "profile": answers.config.profile,
            "changes": dict(answers.config.changes),
            "legs": list(answers.legs),
            "limit": LIMIT,
            "baseline": "" if against is None else against.config.name,
            "command": command,
        },
        **_estimates(answers, against, range(len(scored))),
        **{
            name: _by_group(answers, against, group)
            for name, group in GROUPINGS.items()
            if any(group(each.query) for each in scored)
        },
        marks={"right": right, "wrong": wrong},
        cpu_ms=answers.cpu_ms,
        server=asdict(Latency.of(server)) if server else None,
        failed=sum(bool(each.failed) for each in scored),
        partial=sum(bool(each.partial) for each in scored),
        leg_faults=Counter(fault for each in scored for fault in each.partial),
    )


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
    for metric in ALL_METRICS:
        of_metric = [place for place in places if metric in answers.scored[place].scores]
        if not of_metric:
            continue
        clusters = [answers.scored[place].query.tenant for place in of_metric]
        now = [answers.scored[place].scores[metric] for place in of_metric]
        means[metric] = mean_interval(now, clusters).as_record()
        if baseline is not None:
            before = [baseline.scored[place].scores[metric] for place in of_metric]
            differences[metric] = paired_difference(now, before, clusters).as_record()
    return means if baseline is None else {**means, "difference": differences}
