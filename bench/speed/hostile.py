"""The command `python -m bench.speed.hostile`: a steady tenant while others send hostile bodies.

The attacker is a process of its own. What it costs the machine besides the service is in two
phases: in one it sends as many requests that HAProxy answers alone, in the other it sends nothing
and uses as much of the processor as it and HAProxy did for the bodies without a key.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

import click

from bench.harness import options
from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections
from bench.harness.load import Call, Run, open_loop, poisson_arrivals
from bench.harness.processes import ServiceProcesses, spent
from bench.harness.results import Record, Result, Take, number, select
from bench.harness.service import fresh_data, started
from bench.harness.writing import store
from bench.reports.recording import console, recorded
from bench.reports.report import Column, counted, latency, parameter, table_of, value
from bench.speed.faults.relay import Streams
from serving.desk.embedded_postgres import EmbeddedPostgres
from serving.desk.ray_environment import LOOPBACK, free_ports
from trivium.aio import AsyncClient
from trivium.values import Retrieval

HOSTILE = "hostile"
QUESTIONS_PER_S = 20.0
BUDGET_S = 1.0
CONNECTIONS = 16
SIZE = 60_000
"""Bytes of a hostile body: what a question may have, and of the most values."""
ROLES = ("attacker", "haproxy", "replica Ingress")


class Other(StrEnum):
    """What others send meanwhile."""

    NOTHING = "nothing"
    HEALTH = "checks of health"
    WITHOUT_KEY = "hostile bodies without a key"
    WITH_KEY = "hostile bodies with a reader's key"
    WRONG_KEYS = "hostile bodies with a hundred wrong keys in turn"
    COMPUTING = "nothing, but compute as much"


HOSTILE_BODIES: Mapping[str, bytes] = {
    "/v1/ingest": b'{"items":[' + b"{}," * (SIZE // 3) + b"{}]}",
    "/v1/query": b'{"query":[' + b"0," * (SIZE // 2) + b"0]}",
    "/v1/retrieve": b'{"query":' + b"[" * SIZE,
    "/agents/1/retrieve-hybrid": b"{" + b'"a":0,' * (SIZE // 6) + b'"a":0}',
}


def requests(other: Other, key: str) -> list[bytes]:
    """The requests of others, whole."""
    if other is Other.HEALTH:
        return [_request("GET", "/-/healthz", b"", "")]
    keys = {
        Other.WITH_KEY: [key],
        Other.WRONG_KEYS: [f"trv_{n:016x}_{'A' * 43}" for n in range(100)],
    }.get(other, [""])
    return [
        _request("POST", path, body, sent) for sent in keys for path, body in HOSTILE_BODIES.items()
    ]


def _request(verb: str, path: str, body: bytes, key: str) -> bytes:
    lines = [f"{verb} {path} HTTP/1.1", f"host: {LOOPBACK}", f"content-length: {len(body)}"]
    lines += ["content-type: application/json"] if body else []
    lines += [f"authorization: Bearer {key}"] if key else []
    return "\r\n".join([*lines, "", ""]).encode() + body


# ---------------------------------------------------------------- the attacker

SLICE_S = 0.002
"""How long it computes at a time, about as for a request."""


class Attack(NamedTuple):
    """How often each status was answered, and the CPU time of the attacker in seconds."""

    statuses: Mapping[str, int]
    cpu_s: float


def attack(port: int, sent: Sequence[bytes], per_s: float, seconds: float) -> Attack:
    """Sends requests in turn at a rate."""
    began_s = time.process_time()
    statuses = asyncio.run(attacked(port, sent, per_s, seconds))
    return Attack(statuses, time.process_time() - began_s)


def compute(cores: float, seconds: float) -> Attack:
    """Sends nothing, and uses that part of a core; no more than a whole one."""
    began, began_s = time.perf_counter(), time.process_time()
    while (left_s := began + seconds - time.perf_counter()) > 0:
        due_s = cores * (time.perf_counter() - began) - (time.process_time() - began_s)
        if due_s < SLICE_S:
            time.sleep(min(left_s, (SLICE_S - due_s) / cores))
    return Attack({}, time.process_time() - began_s)


async def attacked(
    port: int, sent: Sequence[bytes], per_s: float, seconds: float
) -> dict[str, int]:
    """Returns how often each status was answered."""
    statuses: Counter[str] = Counter()
    turns, began = count(), time.perf_counter()

    async def sender() -> None:
        connection: Streams | None = None
        is_over = False
        while not is_over:  # once at least
            turn = next(turns)
            await asyncio.sleep(max(0.0, began + turn / per_s - time.perf_counter()))
            try:
                connection = connection or await asyncio.open_connection(LOOPBACK, port)
                status, stays = await _answered(connection, sent[turn % len(sent)])
            except (OSError, EOFError):
                status, stays = "closed", False
            statuses[status] += 1
            if connection is not None and not stays:
                await _close(connection)
                connection = None
            is_over = time.perf_counter() >= began + seconds
        if connection is not None:
            await _close(connection)

    await asyncio.gather(*(sender() for _ in range(CONNECTIONS)))
    return dict(statuses)


async def _close(connection: Streams) -> None:
    connection[1].close()
    with contextlib.suppress(OSError):
        await connection[1].wait_closed()


async def _answered(connection: Streams, request: bytes) -> tuple[str, bool]:
    """The status of the answer, and whether the connection stays open."""
    reader, writer = connection
    writer.write(request)
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    headers = dict(line.partition(": ")[::2] for line in lines)
    await reader.readexactly(int(headers.get("content-length", "0")))
    return first.split()[1], headers.get("connection") != "close"


# ---------------------------------------------------------------- the tenant


@dataclass(frozen=True, slots=True)
class Plan:
    """Requests of the others a second, seconds of each phase, and how often each has its turn."""

    per_s: float
    seconds: float
    rounds: int


@dataclass(slots=True)
class Phase:
    """The calls of the tenant, how often each status was answered to others, and CPU seconds."""

    calls: list[Call[Retrieval]] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    cpu_s: Counter[str] = field(default_factory=Counter)


@click.command(context_settings=options.HELP)
@options.data
@options.measure("--per-second", 1000.0, "Requests of the others.")
@options.measure("--seconds", 5.0, "Of each phase.")
@options.count("--rounds", 5, "How often each phase has its turn.")
@options.out
def main(data: Path | None, per_second: float, seconds: float, rounds: int, out: Path) -> None:
    """Ask at a steady rate with a key while others send hostile bodies, in turns."""
    collection = options.chosen(data)
    plan = Plan(per_second, seconds, rounds)
    with recorded(HOSTILE, collection, out, hostile_table) as take:
        asyncio.run(_measure(collection, plan, take))


async def _measure(collection: Collection, plan: Plan, take: Take) -> None:
    http = free_ports(1)
    with fresh_data() as folder:
        postgres = EmbeddedPostgres(folder / "postgres")
        settings = {
            "TRIVIUM_POSTGRES__DSN": await asyncio.to_thread(postgres.start),
            "TRIVIUM_AUTH__KEYS": "true",
            "TRIVIUM_SERVE__HTTP_PORT": str(http),
        }
        try:
            console.print("starting the service")
            async with started(folder, settings) as service:
                admin, reader = (_key(settings, role) for role in ("admin", "reader"))
                async with AsyncClient(service.address, token=admin) as client:
                    connections = Connections([client])
                    await store(connections, collection)
                    processes = ServiceProcesses(service.pid)
                    await _in_turns(
                        connections, cycle(collection.queries), http, reader, plan, processes, take
                    )
        finally:
            await asyncio.to_thread(postgres.stop)


async def _in_turns(
    connections: Connections,
    queries: Iterator[Query],
    http: int,
    key: str,
    plan: Plan,
    processes: ServiceProcesses,
    take: Take,
) -> None:
    ask = partial(connections.ask, timeout=BUDGET_S)
    phases = {other: Phase() for other in Other}
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as attacker:
        # The first round is for connections, and for the process to start.
        for number in range(plan.rounds + 1):
            cores = 0.0
            for other in Other:
                before = processes.cpu()
                arrivals = poisson_arrivals(
                    QUESTIONS_PER_S, round(QUESTIONS_PER_S * plan.seconds), seed=number
                )
                tenant = asyncio.create_task(open_loop(ask, queries, arrivals))
                made = Attack({}, 0.0)
                if other is Other.COMPUTING:
                    made = await loop.run_in_executor(attacker, compute, cores, plan.seconds)
                elif other is not Other.NOTHING:
                    sent = requests(other, key)
                    made = await loop.run_in_executor(
                        attacker, attack, http, sent, plan.per_s, plan.seconds
                    )
                run = await tenant
                used = {**spent(before, processes.cpu()), "attacker": made.cpu_s}
                if other is Other.WITHOUT_KEY:
                    cores = (used["attacker"] + used.get("haproxy", 0.0)) / plan.seconds
                if number:
                    phases[other].calls += run.calls
                    phases[other].answered.update(made.statuses)
                    phases[other].cpu_s.update(used)
    for other, phase in phases.items():
        take(result_of(other, phase, plan))


def _key(settings: Mapping[str, str], role: str) -> str:
    """Creates a key for all tenants."""
    variables = (f"{name}={value}" for name, value in settings.items())
    command = [sys.executable, "-m", "serving", "keys", "create", "--all-tenants", "--role", role]
    return subprocess.check_output(["env", *variables, *command], text=True).strip()


def result_of(other: Other, phase: Phase, plan: Plan) -> Result:
    """Summarises all turns of a phase."""
    run = Run(phase.calls, plan.seconds * plan.rounds)
    return run.result(
        HOSTILE,
        {"others": other.value, "per_s": plan.per_s, "budget_ms": BUDGET_S * 1e3},
        sent_per_s=round(phase.answered.total() / run.seconds, 1),
        statuses=dict(sorted(phase.answered.items())),
        cores={role: round(phase.cpu_s[role] / run.seconds, 2) for role in ROLES},
    )


def hostile_table(records: Sequence[Record]) -> str:
    """A line for each phase, with its ratios to the one in which nothing else is sent."""
    phases = select(records, HOSTILE)

    def ratio(*path: str) -> Column:
        def written(record: Record) -> str:
            alone = number(phases[0], *path)
            return f"{(number(record, *path) or 0.0) / alone:.2f}" if alone else ""

        return written

    columns: dict[str, Column] = {
        "others send": parameter("others"),
        "a second": value("measured", "sent_per_s"),
        "they are answered": counted("measured", "statuses"),
        "questions": value("n"),
        **latency("p50", "p99"),
        "p99, ratio": ratio("latency", "p99_ms"),
        "answers/s": value("throughput_per_s"),
        "ratio": ratio("throughput_per_s"),
        "errors": counted("errors"),
        **{f"cores of the {role}": value("measured", "cores", role) for role in ROLES},
    }
    return table_of(phases, columns)


if __name__ == "__main__":
    main()
