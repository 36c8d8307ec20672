"""Above its capacity a service answers as much in time as at its capacity, in simulated time.

The processor is shared: each question takes some milliseconds of it, in turns of a millisecond.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError
from serving.domain.items.records import TenantName
from serving.domain.ranking.profile import LegSpec, Profile
from serving.pipeline.retrieval.admission import IDLE_TENANT_RESERVE, Admission
from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.support.builders import TENANT

PLAIN = Profile(name="plain", legs=(LegSpec(name="lexical"),))
TURNS = 10
TURN_S = 0.001
CAPACITY_PER_S = 1 / (TURNS * TURN_S)
SECONDS = 10
BUDGETS_S = [0.05, pytest.param(0.1, marks=pytest.mark.release), 0.3]


@dataclass
class Seen:
    in_time: int = 0
    late: int = 0
    refused: int = 0

    @property
    def goodput_per_s(self) -> float:
        return self.in_time / SECONDS


class Service:
    """One processor behind an admission.

    Args:
        arriving_turns: What each call takes of the processor before it can be admitted or refused.
    """

    def __init__(self, arriving_turns: int = 0) -> None:
        self._arriving_turns = arriving_turns
        self._clock = asyncio.get_running_loop().time
        self._admission = Admission(clock=self._clock)
        self._processor = asyncio.Lock()

    async def ask(self, budget_s: float, seen: Seen, tenant: TenantName) -> None:
        try:
            async with asyncio.timeout(budget_s):
                deadline = await self._arrival(budget_s)
                arrived_s = self._clock()
                with self._admission.admitted(tenant, PLAIN, deadline):
                    await self._work(TURNS)
        except OverloadedError:
            assert self._clock() == arrived_s, "a refusal is at once"
            seen.refused += 1
        except TimeoutError:
            seen.late += 1
        else:
            seen.in_time += 1

    async def _arrival(self, budget_s: float) -> Deadline:
        """Waits for it; as the service, this does not know how long a call waited until then."""
        await self._work(self._arriving_turns)
        return Deadline.after(budget_s, self._clock)

    async def _work(self, turns: int) -> None:
        for _ in range(turns):
            async with self._processor:
                await asyncio.sleep(TURN_S)

    async def load(self, rate_per_s: float, budget_s: float, tenant: TenantName = TENANT) -> Seen:
        seen = Seen()
        async with asyncio.TaskGroup() as asked:
            for _ in range(round(rate_per_s * SECONDS)):
                asked.create_task(self.ask(budget_s, seen, tenant))
                await asyncio.sleep(1 / rate_per_s)
        return seen


class OneAtATime(Service):
    """A service to which calls are handed over one at a time, with the deadlines of their arrival.

    Args:
        arriving_turns: What it takes to hand over a call.
    """

    def __init__(self, arriving_turns: int) -> None:
        super().__init__(arriving_turns)
        self._hand_over = asyncio.Lock()
        self._pending = 0
        self._admission = Admission(clock=self._clock, pending=lambda: self._pending)

    async def _arrival(self, budget_s: float) -> Deadline:
        deadline = Deadline.after(budget_s, self._clock)
        self._pending += 1
        try:
            async with self._hand_over:
                await self._work(self._arriving_turns)
        finally:
            self._pending -= 1
        return deadline


async def loaded(
    share: float, budget_s: float, *, before: float = 0, kind: type[Service] = Service, **given: int
) -> Seen:
    """A load by its share of the capacity, after another on the same service."""
    service = kind(**given)
    await service.load(before * CAPACITY_PER_S, budget_s)
    return await service.load(share * CAPACITY_PER_S, budget_s)


@pytest.mark.parametrize(("before", "budget_s"), [(0, 0.05), (0, 0.1), (0, 0.3), (3, 0.1)])
def test_load_below_capacity_is_never_refused(before: float, budget_s: float) -> None:
    seen = run_in_virtual_time(loaded(0.5, budget_s, before=before))

    assert (seen.refused, seen.late) == (0, 0)


@pytest.mark.parametrize("budget_s", BUDGETS_S)
@pytest.mark.parametrize("share", [1.5, 3, pytest.param(10, marks=pytest.mark.release)])
def test_overload_keeps_goodput_at_capacity(share: float, budget_s: float) -> None:
    seen = run_in_virtual_time(loaded(share, budget_s))

    assert seen.goodput_per_s >= 0.9 * CAPACITY_PER_S
    assert seen.late <= 0.01 * seen.in_time
    assert seen.refused > 0


@pytest.mark.parametrize("budget_s", BUDGETS_S)
@pytest.mark.parametrize("share", [2, 5])
@pytest.mark.parametrize(("kind", "late"), [(Service, 0.05), (OneAtATime, 0.01)])
def test_wait_before_admission_keeps_goodput(
    kind: type[Service], late: float, share: float, budget_s: float
) -> None:
    seen = run_in_virtual_time(loaded(share, budget_s, kind=kind, arriving_turns=1))

    left_for_answers = 1 - share * CAPACITY_PER_S * TURN_S
    assert seen.goodput_per_s >= 0.9 * CAPACITY_PER_S * left_for_answers
    assert seen.late <= late * seen.in_time


async def _calling_again_at_once(callers: int, budget_s: float) -> Seen:
    service, seen = OneAtATime(arriving_turns=1), Seen()
    end = asyncio.get_running_loop().time() + SECONDS

    async def call_again() -> None:
        while asyncio.get_running_loop().time() < end:
            await service.ask(budget_s, seen, TENANT)

    async with asyncio.TaskGroup() as calling:
        for _ in range(callers):
            calling.create_task(call_again())
    return seen


def test_immediate_retries_leave_some_goodput() -> None:
    seen = run_in_virtual_time(_calling_again_at_once(64, 0.3))

    assert seen.goodput_per_s >= 0.5 * IDLE_TENANT_RESERVE * CAPACITY_PER_S


async def _during_a_flood(share: float, budget_s: float, kind: type[Service], turns: int) -> Seen:
    service = kind(turns)
    quiet, _ = await asyncio.gather(
        service.load(0.2 * CAPACITY_PER_S, budget_s, TenantName("quiet")),
        service.load(share * CAPACITY_PER_S, budget_s, TenantName("flooding")),
    )
    return quiet


@pytest.mark.parametrize("share", [2, pytest.param(10, marks=pytest.mark.release)])
def test_quiet_tenant_during_a_flood_is_answered(share: float) -> None:
    quiet = run_in_virtual_time(_during_a_flood(share, 0.1, Service, 0))

    assert (quiet.refused, quiet.late) == (0, 0)


@pytest.mark.parametrize("budget_s", [0.1, 0.3])
@pytest.mark.parametrize("share", [2, 3])
def test_quiet_tenant_is_answered_with_pending_calls(share: float, budget_s: float) -> None:
    quiet = run_in_virtual_time(_during_a_flood(share, budget_s, OneAtATime, 1))

    assert quiet.late == 0
    assert quiet.refused <= 0.05 * quiet.in_time
