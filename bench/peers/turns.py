"""Asks all systems the same questions, in turns, so that a busy machine disturbs all alike."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from bench.harness.collection import Query
from bench.harness.connections import LIMIT, Connections
from bench.harness.load import closed_loop
from bench.harness.processes import ServiceProcesses, cpu_over
from bench.harness.results import Json, Result
from bench.peers.peer import RANK_CONSTANTS, Memories, Peer
from bench.quality.scoring.intervals import mean_interval
from bench.quality.scoring.metrics import ranked_segments
from serving.domain.budget import Deadline
from serving.ports.embedding import Embedder

CALLERS = (1, 8, 32)
SETTLING_CALLS = 50
BUDGET_S = 30.0
DEEP = 20
"""Segments by which other memories are judged in what they publish."""

LOAD, RECALL = "peer", "peer recall"
"""The scenarios."""


Search = Callable[[Query, int], Awaitable[Sequence[str]]]
"""Answers a question with the ids of segments, at most the given number, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The service or a peer.

    Attributes:
        name: Its name in the tables.
        lacks: What it does not have, of what the service has.
        search: Answers a question.
        cpu: The CPU seconds until now of all processes that answer, and of the callers.
        rank_constant: Of its fusion; None if its fusion is its own.
    """

    name: str
    lacks: str
    search: Search
    cpu: Callable[[], Mapping[str, float]]
    rank_constant: int | None = None

    async def ask(self, query: Query) -> Sequence[str]:
        """Answers a question of a load."""
        return await self.search(query, LIMIT)

    def parameters(self, **others: Json) -> dict[str, Json]:
        """The parameters that distinguish its results."""
        return {"system": self.name, "rank_constant": self.rank_constant, **others}


def in_process(peer: Peer, embedder: Embedder, memories: Memories) -> Sequence[System]:
    """A peer with each of its rank constants.

    Its questions are embedded by the service's encoder in this process. If facts are among the
    passages, it is asked for twice as many hits, as several may count for one segment.
    """
    evidence = {
        tenant: {passage.id: passage.evidence for passage in passages}
        for tenant, passages in memories.items()
    }
    has_facts = any([id_] != list(its) for of in evidence.values() for id_, its in of.items())

    async def search(rank_constant: int | None, query: Query, limit: int) -> Sequence[str]:
        vector = np.asarray(await embedder.embed_query(query.text, Deadline.after(BUDGET_S)))
        peer.rank_constant = rank_constant
        hits = await peer.search(query.tenant, query.text, vector, limit * (1 + has_facts))
        found = (id_ for hit in hits for id_ in evidence[query.tenant][hit])
        return list(dict.fromkeys(found))[:limit]

    return [
        System(
            name=peer.name,
            lacks=peer.lacks,
            search=partial(search, constant),
            cpu=lambda: {peer.name: peer.cpu_s()},
            rank_constant=constant,
        )
        for constant in peer.rank_constants
    ]


def served(connections: Connections, pid: int) -> System:
    """The service, over gRPC, by its first process."""

    async def search(query: Query, limit: int) -> Sequence[str]:
        answer = await connections.ask(query, timeout=BUDGET_S, limit=limit)
        return ranked_segments(answer.hits, limit)

    return System(
        name="Trivium",
        lacks="-",
        search=search,
        cpu=ServiceProcesses(pid).cpu,
        rank_constant=RANK_CONSTANTS[-1],
    )


async def take_turns(
    systems: Sequence[System],
    queries: Sequence[Query],
    *,
    turns: int,
    calls: int,
) -> AsyncIterator[Result]:
    """Measures every system under every load, `turns` times.

    Every second turn goes through the systems in the reverse order. Each load goes on where the
    last one of its system ended.
    """
    streams = {system.name: itertools.cycle(queries) for system in systems}
    for callers in CALLERS:
        for turn in range(turns):
            for system in systems if turn % 2 == 0 else reversed(systems):
                stream = streams[system.name]
                await closed_loop(system.ask, islice(stream, SETTLING_CALLS), callers)
                asking = closed_loop(system.ask, islice(stream, calls), callers)
                run, use = await cpu_over(system.cpu, asking)
                cpu = use.per_request(len(run.calls))
                yield run.result(
                    LOAD,
                    system.parameters(callers=callers, turn=turn),
                    cpu_ms=cpu["total_ms"],
                    cores_elsewhere=cpu["cores_elsewhere"],
                    lacks=system.lacks,
                )


async def judged(system: System, queries: Sequence[Query]) -> Result:
    """Asks each judged question for ten segments and again for twenty, and scores both."""
    measured: dict[str, Json] = {}
    errors: Counter[str] = Counter()
    for limit in (LIMIT, DEEP):
        run = await closed_loop(partial(_scored, system, limit), queries, CALLERS[1])
        errors.update(call.code for call in run.calls if call.code)
        scores = dict(answer for _, answer in run.answered)
        in_order = [query for query in queries if query.id in scores]
        clusters = [query.tenant for query in in_order]
        by_metric = zip(*(scores[query.id] for query in in_order), strict=True)
        for metric, values in zip(("recall", "hit", "mrr"), by_metric, strict=True):
            measured[f"{metric}@{limit}"] = mean_interval(values, clusters).as_record()
    return Result(
        scenario=RECALL,
        parameters=system.parameters(),
        n=len(clusters),
        errors=errors,
        measured=measured,
    )


async def _scored(
    system: System, limit: int, query: Query
) -> tuple[str, tuple[float, float, float]]:
    """The id of a question, with recall, hit and reciprocal rank of its answer."""
    hits = [id_ in query.relevant for id_ in await system.search(query, limit)]
    first = hits.index(True) + 1 if any(hits) else math.inf
    return query.id, (sum(hits) / len(query.relevant), any(hits), 1 / first)
