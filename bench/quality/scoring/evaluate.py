"""Sends the judged questions in each way, and scores the answers question by question.

A failed answer scores 0, and an answer that lacks a leg scores what it found. Both are marked and
counted, so that faults of the service are not mistaken for bad ranking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.harness.collection import Query
from bench.harness.connections import LIMIT, Connections
from bench.harness.latency import Latency
from bench.harness.load import Advance, Run, closed_loop, faults_of
from bench.quality.scoring.answers import BRIEFING, briefed_segments, ranked_segments
from bench.quality.scoring.metrics import METRICS, scores
from bench.quality.ways import Way
from trivium.errors import TriviumError
from trivium.values import Retrieval

TIMEOUT_S = 30.0
"""So long that no leg is cut short: quality is measured here, and not what a deadline leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The answer to one question in one way.

    Args:
        query: The question.
        ranked: The segments found, best first.
        scores: Every metric by its name.
        failed: The code of the error that came instead of an answer; empty for none.
        partial: The legs that ended other than they should, and how.
    """

    query: Query
    ranked: Sequence[str] = ()
    scores: dict[str, float]
    failed: str = ""
    partial: Sequence[str] = ()

    @property
    def fault(self) -> str:
        """What went wrong, in words; empty for nothing."""
        return f"failed: {self.failed}" if self.failed else ", ".join(self.partial)


@dataclass(frozen=True)
class Answers:
    """The answers to all questions in one way, in the order of the questions.

    Args:
        way: How they were asked.
        legs: The legs that it carries.
        scored: One for each question.
        run: The calls, for their times and errors; None where no service was asked.
    """

    way: Way
    legs: Sequence[str]
    scored: Sequence[Scored]
    run: Run[Retrieval] | None = None

    def values(self, metric: str) -> list[float]:
        """The metric of each question."""
        return [each.scores[metric] for each in self.scored]

    @cached_property
    def clusters(self) -> list[str]:
        """The conversation of each question."""
        return [each.query.tenant for each in self.scored]

    @property
    def failed(self) -> int:
        """How many questions got no answer."""
        return sum(bool(each.failed) for each in self.scored)

    @property
    def partial(self) -> int:
        """How many answers lack what a leg should have brought."""
        return sum(bool(each.partial) for each in self.scored)

    @property
    def leg_faults(self) -> dict[str, int]:
        """How often which leg ended other than it should."""
        return dict(Counter(fault for each in self.scored for fault in each.partial))

    @property
    def server(self) -> Latency | None:
        """The server's own time of the calls that succeeded; None if none did."""
        answered = [] if self.run is None else self.run.answered
        totals = [each.statistics.total.total_seconds() for _, each in answered]
        return Latency.of(totals) if totals else None


async def ask_way(
    connections: Connections,
    queries: Sequence[Query],
    way: Way,
    legs: Sequence[str],
    advance: Advance,
    *,
    limit: int = LIMIT,
    callers: int = 1,
) -> Answers:
    """Asks all questions in one way; what was written must be projected by now.

    Args:
        connections: To the service.
        queries: Judged questions, no two of one id.
        way: How to ask.
        legs: The legs that it carries, for the record.
        advance: Called after each answer.
        limit: How many hits to ask for.
        callers: How many questions at a time. One measures the latency of an idle service.
    """
    scored: dict[str, Scored] = {}

    async def ask(query: Query) -> Retrieval:
        try:
            retrieval = await ask_once(connections, query, way, limit=limit)
        except TriviumError as error:
            scored[query.id] = failed(query, error)
            raise
        scored[query.id] = score(query, retrieval)
        return retrieval

    run = await closed_loop(ask, queries, callers, advance)
    return Answers(way, tuple(legs), [scored[query.id] for query in queries], run)


async def ask_once(
    connections: Connections,
    query: Query,
    way: Way,
    *,
    limit: int = LIMIT,
    explain: bool = False,
    timeout: float = TIMEOUT_S,
) -> Retrieval:
    """Asks one question in one way, with the block for a prompt.

    Raises:
        TriviumError: There was no answer.
    """
    return await connections.ask(
        query,
        timeout=timeout,
        briefing=BRIEFING,
        limit=limit,
        profile=way.profile,
        profile_overrides=way.changes,
        explain=explain,
    )


def score(query: Query, retrieval: Retrieval) -> Scored:
    """Scores an answer."""
    ranked = ranked_segments(retrieval.hits)
    return Scored(
        query=query,
        ranked=ranked,
        scores=scores(ranked, query.relevant, briefed_segments(retrieval)),
        partial=faults_of(retrieval),
    )


def failed(query: Query, error: TriviumError) -> Scored:
    """Scores an error that came instead of an answer."""
    return Scored(query=query, scores=dict.fromkeys(METRICS, 0.0), failed=error.code.name)
