"""Sends judged questions under a run configuration, and scores the answers question by question.

A failed answer scores 0, and an answer that lacks a leg scores what it found. Both are marked and
counted, so that faults of the service are not mistaken for bad ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.collection import Query
from bench.harness.connections import Connections
from bench.harness.cpu import cpu_over
from bench.harness.load import Run, closed_loop, faults_of
from bench.harness.processes import ServiceProcesses
from bench.quality.run_config import RunConfig
from bench.quality.scoring.answers import BRIEFING, briefed_segments, ranked_segments
from bench.quality.scoring.metrics import (
    CURRENT_FIRST,
    KEPT,
    METRICS,
    current_first,
    kept,
    marks,
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
    """Sends all questions under a configuration, one at a time.

    What was written must be projected by now.

    Args:
        connections: To the service.
        queries: Judged questions, no two of one id.
        config: The configuration.
        legs: The legs that it has, for the record.
        processes: Those of the service, to measure the CPU time of an answer.
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
        run, use = await cpu_over(processes, asking)
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
    metrics = [
        *METRICS,
        *([CURRENT_FIRST] if query.outdated else []),
        *([KEPT] if query.holds else []),
    ]
    return Scored(query=query, scores=dict.fromkeys(metrics, 0.0), failed=error.code.name)
