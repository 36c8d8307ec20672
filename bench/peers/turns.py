"""Asks all systems the same questions, in turns, so that a busy machine disturbs all alike."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bench.harness.collection import Query
from bench.harness.connections import LIMIT, Connections
from bench.harness.load import closed_loop
from bench.harness.processes import ServiceProcesses, machine_busy_s
from bench.harness.results import Result
from bench.peers.peer import Peer
from bench.quality.scoring.answers import ranked_segments
from bench.quality.scoring.intervals import mean_interval
from serving.domain.budget import Deadline
from serving.ports.embedding import Embedder

CALLERS = (1, 8, 32)
SETTLING_CALLS = 50
BUDGET_S = 30.0

LOAD, RECALL = "peer", "peer recall"
"""The scenarios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The service or a peer.

    Attributes:
        name: Its name in the tables.
        lacks: What it does not have, of what the service has.
        ask: Answers a question with the ids of segments, best first.
        cpu_s: The CPU seconds until now of all processes that answer, and of the callers.
    """

    name: str
    lacks: str
    ask: Callable[[Query], Awaitable[Sequence[str]]]
    cpu_s: Callable[[], float]


def in_process(peer: Peer, embedder: Embedder) -> System:
    """A peer, whose questions are embedded by the service's encoder in this process."""

    async def ask(query: Query) -> Sequence[str]:
        vector = await embedder.embed_query(query.text, Deadline.after(BUDGET_S))
        return await peer.search(query.tenant, query.text, np.asarray(vector), LIMIT)

    return System(name=peer.name, lacks=peer.lacks, ask=ask, cpu_s=peer.cpu_s)


def served(connections: Connections, pid: int) -> System:
    """The service, over gRPC.

    Args:
        connections: To the service.
        pid: Its first process.
    """
    processes = ServiceProcesses(pid)

    async def ask(query: Query) -> Sequence[str]:
        return ranked_segments((await connections.ask(query, timeout=BUDGET_S)).hits)

    return System(name="Trivium", lacks="-", ask=ask, cpu_s=lambda: sum(processes.cpu().values()))


async def take_turns(
    systems: Sequence[System],
    queries: Sequence[Query],
    *,
    turns: int,
    calls: int,
) -> AsyncIterator[Result]:
    """Measures every system under every load, `turns` times.

    Every second turn goes through the systems in the reverse order. Each load goes on where the
    last one of its system ended, so that a cache of the last questions does not answer it.

    Args:
        systems: What answers.
        queries: Asked again and again.
        turns: How often.
        calls: The questions of each load.
    """
    streams = {system.name: itertools.cycle(queries) for system in systems}
    for callers in CALLERS:
        for turn in range(turns):
            for system in systems if turn % 2 == 0 else reversed(systems):
                stream = streams[system.name]
                settling = islice(stream, SETTLING_CALLS)
                await closed_loop(system.ask, settling, callers)
                yield await _loaded(system, islice(stream, calls), callers, turn)


async def _loaded(system: System, asked: Iterable[Query], callers: int, turn: int) -> Result:
    cpu_s, busy_s, started = system.cpu_s(), machine_busy_s(), time.perf_counter()
    run = await closed_loop(system.ask, asked, callers)
    wall_s = time.perf_counter() - started
    used_s, all_s = system.cpu_s() - cpu_s, machine_busy_s() - busy_s
    return Result(
        scenario=LOAD,
        parameters={"system": system.name, "callers": callers, "turn": turn},
        n=len(run.calls),
        throughput_per_s=run.throughput_per_s,
        latency=run.latency,
        errors=run.errors,
        measured={
            "cpu_ms": round(used_s * 1e3 / len(run.calls), 3),
            "cores_elsewhere": round(max(0.0, all_s - used_s) / wall_s, 3),
            "lacks": system.lacks,
        },
    )


async def recall(system: System, judged: Sequence[Query]) -> Result:
    """Asks each judged question once, and scores the first ten ids."""
    found: dict[str, float] = {}

    async def ask(query: Query) -> None:
        ranked = await system.ask(query)
        found[query.id] = len(query.relevant.intersection(ranked[:LIMIT])) / len(query.relevant)

    run = await closed_loop(ask, judged, CALLERS[1])
    scored = [query for query in judged if query.id in found]
    clusters = [query.tenant for query in scored]
    return Result(
        scenario=RECALL,
        parameters={"system": system.name},
        n=len(scored),
        errors=run.errors,
        measured={
            "recall@10": mean_interval([found[query.id] for query in scored], clusters).as_record()
        },
    )
