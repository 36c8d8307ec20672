"""Writes a set to the service, measures every way, and explains the best and worst answers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.progress import Progress

from bench.harness.collection import Collection, Query
from bench.harness.connections import LIMIT, Connections
from bench.harness.results import Result, table
from bench.harness.writing import BatchLoader, measure_projection, projected
from bench.quality.scoring.evaluate import Answers, Scored, ask_once, ask_way
from bench.quality.scoring.metrics import EVIDENCE
from bench.quality.ways import Way, legs_of
from trivium.errors import TriviumError
from trivium.tuning import Profile
from trivium.values import Retrieval

WARM_UP = 50
"""Questions asked before those that count."""

STATS_TIMEOUT_S = 30.0

EXTREMES = 10
"""How many of the best and of the worst answers of a way are looked at."""

_ORDER = ("ndcg@10", "recall@10", EVIDENCE, "mrr@10")

Place = Literal["best", "worst"]


class RejectedError(Exception):
    """The service would not store all of a set; the message says how much of it."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One of a way's best or worst answers, asked once more with its ledgers.

    `retrieval` is None if there was no answer.
    """

    place: Place
    scored: Scored
    retrieval: Retrieval | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A set, and the answers to its questions by way; those of the baseline come first."""

    collection: Collection
    answers: Sequence[Answers]
    explained: Mapping[str, Sequence[Explained]] = field(default_factory=dict)

    @property
    def baseline(self) -> Answers:
        """The way that the others are compared with."""
        return self.answers[0]


class Session:
    """Measures sets at one service.

    Args:
        connections: To it.
        profiles: As it lists them.
        bars: Show how far it is.
        limit: How many hits to ask for.
        callers: How many questions at a time.
    """

    def __init__(
        self,
        connections: Connections,
        profiles: Sequence[Profile],
        bars: Progress,
        *,
        limit: int = LIMIT,
        callers: int = 1,
    ) -> None:
        self._connections = connections
        self._profiles = profiles
        self._bars = bars
        self._limit = limit
        self._callers = callers

    async def measure(
        self, collection: Collection, ways: Sequence[Way], *, explain: bool = True
    ) -> Measured:
        """Writes a set, waits until every leg has it, and asks its judged questions.

        Args:
            collection: The set.
            ways: How to ask, the baseline first.
            explain: Whether to look at the best and the worst answers.

        Raises:
            RejectedError: The service would not store all of it.
            TriviumError: It did not answer while the set was written.
        """
        connections = await self.store(collection)
        queries = collection.judged
        await self._warm_up(connections, queries, ways[0])
        bar = self._bars.add_task(f"querying {collection.name}", total=len(queries) * len(ways))
        answers = [
            await ask_way(
                connections,
                queries,
                way,
                legs_of(way, self._profiles),
                lambda: self._bars.advance(bar),
                limit=self._limit,
                callers=self._callers,
            )
            for way in ways
        ]
        looked_at = answers if explain else []
        explained = {each.way.name: await self._explain(connections, each) for each in looked_at}
        return Measured(collection, answers, explained)

    async def store(self, collection: Collection) -> Connections:
        """Writes a set, unless all of it is there, and waits until every leg has it.

        The set has tenants of its own, named by its contents: it is written once however often it
        is measured, and what was there before is not among it.

        Returns:
            The connections to these tenants.

        Raises:
            RejectedError: The service would not store all of it.
            TriviumError: It did not answer while the set was written.
        """
        connections = self._connections.apart(f"-{fingerprint(collection)}")
        if not await _is_stored(connections, collection):
            await self._write(connections, collection)
        return connections

    async def _write(self, connections: Connections, collection: Collection) -> None:
        total = collection.segment_count + collection.fact_count
        bar = self._bars.add_task(f"writing {collection.name}", total=total)
        since = time.perf_counter()
        loader = BatchLoader(connections, lambda count: self._bars.advance(bar, count))
        for result in await loader.load(collection):
            _check_stored(collection, result)
        bar = self._bars.add_task(f"projecting {collection.name}", total=1)
        await measure_projection(connections, collection, loader.tokens, since)
        self._bars.advance(bar)

    async def _warm_up(self, connections: Connections, queries: Sequence[Query], way: Way) -> None:
        """Sends unmeasured questions first, to exclude start-up costs."""
        bar = self._bars.add_task("warming up", total=min(WARM_UP, len(queries)))
        await ask_way(
            connections,
            queries[:WARM_UP],
            way,
            (),
            lambda: self._bars.advance(bar),
            limit=self._limit,
        )

    async def _explain(self, connections: Connections, answers: Answers) -> list[Explained]:
        best, worst = extremes(answers.scored)
        places: list[tuple[Place, Sequence[Scored]]] = [("best", best), ("worst", worst)]
        return [
            Explained(place, scored, await self._again(connections, scored, answers.way))
            for place, of_place in places
            for scored in of_place
        ]

    async def _again(self, connections: Connections, scored: Scored, way: Way) -> Retrieval | None:
        try:
            return await ask_once(connections, scored.query, way, limit=self._limit, explain=True)
        except TriviumError:
            return None


def extremes(
    scored: Sequence[Scored], count: int = EXTREMES
) -> tuple[Sequence[Scored], Sequence[Scored]]:
    """The best answers, best first, and the worst, worst first; none is among both.

    Of equally good ones those come first that had more to find.
    """
    ordered = sorted(scored, key=_goodness)
    count = min(count, len(ordered) // 2) or len(ordered)
    worst = ordered[:count] if len(ordered) > 1 else []
    return ordered[::-1][:count], worst


def _goodness(scored: Scored) -> tuple[object, ...]:
    found = [scored.scores[metric] for metric in _ORDER]
    return (*found, len(scored.query.relevant), scored.query.id)


def fingerprint(collection: Collection) -> str:
    """A hash of the stored contents of a set."""
    digest = hashlib.sha256()
    for tenant, memory in sorted(collection.memories.items()):
        digest.update(repr((tenant, memory.segments, memory.facts)).encode())
    return digest.hexdigest()[:12]


async def _is_stored(connections: Connections, collection: Collection) -> bool:
    """Whether the tenants of a set hold as much as it has, and every projection has it.

    Their names say what is written to them, so as much is the same.
    """
    for tenant, memory in collection.memories.items():
        stats = await connections.client(tenant).stats(timeout=STATS_TIMEOUT_S)
        counts = stats.tenant
        if counts is None or not projected(stats):
            return False
        if (counts.segment_count, counts.fact_count) != (len(memory.segments), len(memory.facts)):
            return False
    return True


def _check_stored(collection: Collection, result: Result) -> None:
    outcomes = table({"measured": result.measured}, "measured", "outcomes")
    if rejected := outcomes.get("rejected"):
        kind = result.parameters["kind"]
        raise RejectedError(f"{collection.name}: the service rejected {rejected} {kind}")
