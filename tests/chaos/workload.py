"""Callers that write, erase and ask at the same time, and the log of what they were told."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count

from bench.speed.ingest import only
from tests.chaos.checker import Held, Read, Write
from tests.chaos.http_client import HttpClient
from tests.chaos.items import (
    AS_WRITTEN,
    LABEL,
    PARTS,
    Group,
    ItemName,
    items_of,
    text_of,
    version_in,
)
from tests.support.waiting import until
from trivium import AsyncClient, Filter, ForgetResult
from trivium.errors import InvalidRequestError, PreconditionError, TriviumError
from trivium.values import LegState

TENANTS = ("chaos-1", "chaos-2")
"""They have groups and items of the same names."""
GROUPS_OF_A_TENANT = 16
CALLERS = 4
"""The even ones call by gRPC, the others by HTTP."""

ERASURES, QUESTIONS = 0.1, 0.4
"""Shares of the operations; the others are writes."""
GIVEN_UP = 0.1
"""The share of failed writes that are not tried again."""
TIMEOUTS_S = (1.0, 3.0, 20.0)
QUESTION_TIMEOUT_S = 2.0
PAUSES_S = (0.05, 0.5)
"""Before another attempt, unless the error says how long to wait."""
PATIENCE_S = 180.0
RECONNECTING = (("grpc.max_reconnect_backoff_ms", 1000),)
"""gRPC waits up to two minutes by default, in which a caller would meet no further fault."""

GROUPS = tuple(
    Group(tenant, f"g{number}") for tenant in TENANTS for number in range(GROUPS_OF_A_TENANT)
)


class NotAcknowledgedError(Exception):
    """An operation failed for as long as `PATIENCE_S`."""


class Workload:
    """What the callers do, and what was acknowledged to them.

    Args:
        address: Of the service.
        http: The URL of its HTTP.
        seed: Decides what each caller does.
    """

    def __init__(self, address: str, http: str, seed: int) -> None:
        self._address = address
        self._http = http
        self._seeds = (f"{seed} {number}" for number in count())
        self._versions = count(1)
        self._over = asyncio.Event()
        self._last: dict[Group, Write] = {}
        self.writes: list[Write] = []
        self.reads: list[Read] = []
        self.failures: Counter[str] = Counter()
        self.acknowledged = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the callers until the end of the block; each ends the operation that it is at.

        Raises:
            ExceptionGroup: A caller failed, such as by `NotAcknowledgedError`.
        """
        self._over.clear()
        async with asyncio.TaskGroup() as callers:
            for number in range(CALLERS):
                client = (
                    HttpClient(self._address, self._http)
                    if number % 2
                    else AsyncClient(self._address, options=RECONNECTING)
                )
                callers.create_task(self._call(client, next(self._seeds)))
            try:
                yield
            finally:
                self._over.set()

    async def until_acknowledged(self, operations: int) -> None:
        """Waits until `operations` more writes and erasures were acknowledged."""
        wanted = self.acknowledged + operations
        await asyncio.to_thread(until, lambda: self.acknowledged >= wanted, PATIENCE_S)

    async def _call(self, client: AsyncClient, seed: str) -> None:
        rng = random.Random(seed)
        async with client:
            while not self._over.is_set():
                group = rng.choice(GROUPS)
                memory = client.for_tenant(group.tenant)
                drawn = rng.random()
                if drawn < QUESTIONS:
                    await self._ask(memory, rng, group)
                else:
                    await self._write(memory, rng, group, erase=drawn < QUESTIONS + ERASURES)

    async def _write(
        self, memory: AsyncClient, rng: random.Random, group: Group, *, erase: bool
    ) -> None:
        version = None if erase else next(self._versions)
        selector = rng.choice(("ids", "session", "label"))
        write = Write(group=group, version=version, started=time.monotonic())
        while True:
            try:
                token = await _sent(memory, write, selector, rng.choice(TIMEOUTS_S))
                break
            except TriviumError as error:
                if not await self._tries_again(error, rng, write):
                    self.writes.append(write)
                    return
                write = replace(write, attempts=write.attempts + 1)
        write = replace(write, token=token, ended=time.monotonic())
        self.writes.append(write)
        self._last[group] = write
        self.acknowledged += 1

    async def _tries_again(self, error: TriviumError, rng: random.Random, write: Write) -> bool:
        """Counts a failure, and waits before another attempt, unless the caller gives up."""
        self._count(error)
        if time.monotonic() > write.started + PATIENCE_S:
            raise NotAcknowledgedError(f"{write} failed for {PATIENCE_S:g} s") from error
        if rng.random() < GIVEN_UP:
            return False
        delay = error.retry_delay
        await asyncio.sleep(delay.total_seconds() if delay else rng.uniform(*PAUSES_S))
        return True

    def _count(self, error: TriviumError) -> None:
        if isinstance(error, InvalidRequestError | PreconditionError):
            raise error  # no fault explains it
        self.failures[error.reason or error.code.name] += 1

    async def _ask(self, memory: AsyncClient, rng: random.Random, group: Group) -> None:
        """Asks for what was last written to a group, with its token."""
        after = self._last.get(group)
        version = (after.version if after else None) or 1 + rng.randrange(100)
        asked = group.item(rng.choice(PARTS[:-1]))
        # By meaning alone nothing else is before the item, so it must be found.
        legs = only("dense") if rng.random() < 0.5 else {}
        started = time.monotonic()
        try:
            answer = await memory.retrieve(
                text_of(version, asked.id.rpartition(".")[2]),
                consistency_token=after.token if after else "",
                leg_overrides=legs,
                profile_overrides=AS_WRITTEN if legs else {},
                timeout=QUESTION_TIMEOUT_S,
            )
        except TriviumError as error:
            self._count(error)
            return
        must_find = legs and after and after.version
        self.reads.append(
            Read(
                started=started,
                ended=time.monotonic(),
                hits=tuple(
                    Held(ItemName(group.tenant, hit.id), version_in(hit.text))
                    for hit in answer.hits
                ),
                after=after if must_find else None,
                asked=asked,
                complete=all(report.state is LegState.OK for report in answer.leg_reports),
            )
        )


async def _sent(memory: AsyncClient, write: Write, selector: str, timeout_s: float) -> str:
    """Tries a write, or an erasure by a selector, once; returns the token."""
    group = write.group
    if write.version is not None:
        result = await memory.ingest(items_of(group, write.version), timeout=timeout_s)
        assert not result.rejected, result.rejected
        return result.consistency_token
    match selector:
        case "session":
            erased = await memory.forget(session=group.name, timeout=timeout_s)
        case "label":
            labelled = Filter(labels={LABEL: [group.name]})
            erased = await memory.forget(filter=labelled, timeout=timeout_s)
        case _:
            erased = await erase(memory, [group], timeout_s)
    return erased.consistency_token


async def erase(memory: AsyncClient, groups: list[Group], timeout_s: float) -> ForgetResult:
    """Erases groups of the client's tenant by the ids of their items."""
    items = [group.item(part) for group in groups for part in PARTS]
    return await memory.forget(
        segment_ids=[item.id for item in items if not item.is_fact],
        fact_ids=[item.id for item in items if item.is_fact],
        timeout=timeout_s,
    )
