"""Measures lower bounds of the service: the encoder alone, and gRPC alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence

from bench.harness.latency import Latency
from bench.harness.load import Advance
from bench.harness.results import Result
from trivium.aio import AsyncClient
from trivium.values import Health

ROUNDS = 10
CALLS_PER_ROUND = 100
ENCODER_TEXTS = 400


class BaselineError(Exception):
    """A floor could not be measured; the message says why."""


async def measure_encoder(texts: Sequence[str]) -> Result:
    """Times the encoder in a process of its own, while the service has nothing to do.

    Raises:
        BaselineError: The process failed.
    """
    command = (sys.executable, "-m", "bench.speed.floors.bare_encoder")
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    lines = [" ".join(text.split()) for text in texts[:ENCODER_TEXTS]]
    output, errors = await process.communicate("\n".join(lines).encode())
    if process.returncode != 0:
        raise BaselineError(f"the encoder could not be timed: {errors.decode()[-500:]}")
    # Libraries may print before it.
    report = json.loads(output.decode().strip().splitlines()[-1])
    return Result(
        scenario="encoder alone",
        n=len(lines),
        throughput_per_s=round(len(lines) / sum(report["seconds"]), 2),
        latency=Latency.of(report["seconds"]),
        measured={
            "cpu_ms": round(report["cpu_s"] * 1e3 / len(lines), 3),
            "model": report["model"],
        },
    )


async def measure_check(address: str, advance: Advance) -> list[Result]:
    """Times grpc.health.v1's Check of the service and of a bare server, alternately.

    The service's Check also queries PostgreSQL.
    """
    async with (
        _echo_server() as echo_address,
        AsyncClient(address, tenant="bench") as service,
        AsyncClient(echo_address, tenant="bench") as echo,
    ):
        times: dict[str, list[float]] = {"check": [], "echo": []}
        for round_ in range(ROUNDS + 1):
            for scenario, client in (("check", service), ("echo", echo)):
                seconds = [await _timed_check(client) for _ in range(CALLS_PER_ROUND)]
                times[scenario] += seconds if round_ else []  # the first one warms up
                advance()
    return [
        Result(
            scenario=scenario,
            n=len(seconds),
            throughput_per_s=round(len(seconds) / sum(seconds), 2),
            latency=Latency.of(seconds),
        )
        for scenario, seconds in times.items()
    ]


async def _timed_check(client: AsyncClient) -> float:
    started = time.perf_counter()
    health = await client.check()
    if health is not Health.SERVING:
        raise BaselineError(f"the service is {health.value}")
    return time.perf_counter() - started


@contextlib.asynccontextmanager
async def _echo_server() -> AsyncIterator[str]:
    command = (sys.executable, "-m", "bench.speed.floors.echo_server")
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None, "it was made with a pipe; this is a bug"
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        await process.communicate(b"")  # ends its standard input, and so the process
