"""What goes wrong: a process is killed or suspended at a random moment."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import psutil

from tests.chaos.desk import NEO4J, Desk
from tests.support.waiting import until

SUSPENDED_S = (0.2, 3.0)
"""Shorter than the health checks of Serve allow."""

INGRESS, PROJECTOR = "replica Ingress", "replica Projector"
INDEX, EMBEDDER = "replica VectorIndex", "replica Embedder"
POSTGRES = "postgres"
MAIN = "main process"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to the processes of a role.

    Args:
        name: What happens.
        role: To which processes, as `Desk.processes` finds them; of the desk itself if empty.
        suspends: Whether they are suspended for a while, rather than killed.
        one_session: Whether it happens to a server process of PostgreSQL rather than to all.
        ends_desk: Whether the desk must end by itself.
    """

    name: str
    role: str
    suspends: bool = False
    one_session: bool = False
    ends_desk: bool = False


KILL_INGRESS = Fault("kill the ingress", INGRESS)
KILL_PROJECTOR = Fault("kill the projector", PROJECTOR)
KILL_POSTGRES = Fault("kill PostgreSQL", POSTGRES)
KILL_NEO4J = Fault("kill Neo4j", NEO4J)
KILL_PROXY = Fault("kill HAProxy", "haproxy")
KILL_CONTROLLER = Fault("kill the controller of Serve", "ray::ServeContr")
KILL_RAYLET = Fault("kill the raylet", "raylet", ends_desk=True)

IN_EVERY_PLACEMENT = (
    KILL_INGRESS,
    KILL_POSTGRES,
    Fault("kill a session of PostgreSQL", POSTGRES, one_session=True),
    KILL_NEO4J,
    Fault("kill the whole desk", ""),
    Fault("kill the main process of the desk", MAIN),
    KILL_PROXY,
    KILL_CONTROLLER,
    KILL_RAYLET,
    Fault("kill the GCS of Ray", "gcs_server", ends_desk=True),
    Fault("suspend the ingress", INGRESS, suspends=True),
    Fault("suspend PostgreSQL", POSTGRES, suspends=True),
    Fault("suspend Neo4j", NEO4J, suspends=True),
)
FAULTS = {
    "single": IN_EVERY_PLACEMENT,
    "split": (
        *IN_EVERY_PLACEMENT,
        KILL_PROJECTOR,
        Fault("kill the index", INDEX),
        Fault("kill the embedder", EMBEDDER),
        Fault("suspend the projector", PROJECTOR, suspends=True),
        Fault("suspend the index", INDEX, suspends=True),
        Fault("suspend the embedder", EMBEDDER, suspends=True),
    ),
}
"""By placement; a part of a replica fails with it."""


def drawn(rng: random.Random, placement: str, rounds: int) -> list[Fault]:
    """Faults in random order: each before one of them comes again."""
    return list(islice(_shuffled_for_ever(rng, FAULTS[placement]), rounds))


def _shuffled_for_ever(rng: random.Random, faults: Sequence[Fault]) -> Iterator[Fault]:
    while True:
        yield from rng.sample(faults, len(faults))


async def inject(fault: Fault, desk: Desk, rng: random.Random) -> None:
    """Lets a fault happen, as soon as there is a process that it can happen to.

    Returns when suspended processes go on, and when a desk that was killed or has ended has started
    again. Whoever else was killed is started by the desk or by Serve.
    """
    if not fault.role:
        await asyncio.to_thread(desk.kill)
        await asyncio.to_thread(desk.start)
        return
    if fault.role == MAIN:
        await asyncio.to_thread(desk.kill_main)
        return
    await asyncio.to_thread(until, lambda: bool(desk.processes(fault.role)))
    processes = desk.processes(fault.role)
    if fault.suspends:
        _send(signal.SIGSTOP, processes)
        try:
            await asyncio.sleep(rng.uniform(*SUSPENDED_S))
        finally:
            _send(signal.SIGCONT, processes)
    elif fault.ends_desk:
        await asyncio.to_thread(desk.end_without, processes[0])
        await asyncio.to_thread(desk.start)
    else:
        victim = rng.choice(processes[1:] or processes) if fault.one_session else processes[0]
        _send(signal.SIGKILL, [victim])


def _send(number: signal.Signals, processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
