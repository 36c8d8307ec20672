"""What is admitted, shed and refused, on a clock that the test advances."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest

from serving.domain.budget import MIN_ANSWER_S, Deadline
from serving.domain.errors import (
    AllLegsFailedError,
    BudgetExhaustedError,
    OverloadedError,
    TooSlowError,
)
from serving.domain.items.records import TenantName
from serving.domain.ranking.leg_options import Expansion
from serving.domain.ranking.profile import LegSpec, Profile, Rerank
from serving.pipeline.retrieval.admission import (
    IDLE_TENANT_RESERVE,
    MIN_CONCURRENCY,
    MIN_RETRY_S,
    RECENT_TENANT_S,
    RERANK,
    RESERVE_KEPT_S,
    SHED_REASON,
    Admission,
)
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.order.hit import Stage
from tests.fakes.pipeline import FixedLeg
from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.support.builders import TENANT, segment
from tests.support.stepped_clock import SteppedClock
from tests.unit.pipeline.retrieval.retrieving import answered, hit_ids, states

PLAIN = Profile(name="plain", legs=(LegSpec(name="lexical"), LegSpec(name="dense")))
FULL = Profile(
    name="full",
    legs=(
        LegSpec(name="lexical"),
        LegSpec(name="graph"),
        LegSpec(name="related", expansion=Expansion(found_by=("lexical",))),
    ),
    rerank=Rerank(),
)
SHEDDABLE = frozenset({"graph", "related"})
ALL_SHED = SHEDDABLE | {RERANK}
SERVICE_TIME_S = 0.010
OTHER = TenantName("other")


class Busy:
    """An admission under a load whose queries each have the same service time."""

    def __init__(self, max_concurrency: int = 1000) -> None:
        self.clock = SteppedClock()
        self.pending = 0
        self.admission = Admission(
            max_concurrency, sheddable=SHEDDABLE, pending=lambda: self.pending, clock=self.clock
        )

    def learn(
        self,
        service_time_s: float = SERVICE_TIME_S,
        *,
        profile: Profile = PLAIN,
        queries: int = 100,
        tenant: TenantName = TENANT,
    ) -> None:
        for _ in range(queries):
            with self.admission.admitted(tenant, profile, self.within(60)):
                self.clock.now += service_time_s

    def fail(self, seconds: float, error: BaseException) -> None:
        """A query that ends so after that time."""
        with self.admission.admitted(TENANT, PLAIN, self.within(60)):
            self.clock.now += seconds
            raise error

    def within(self, seconds: float) -> Deadline:
        return Deadline.after(seconds, self.clock)

    def retry_after_s(self, budget_s: float) -> float:
        """What a query that is refused is to wait."""
        admitted = self.admission.admitted(TENANT, PLAIN, self.within(budget_s))
        with pytest.raises(OverloadedError) as refused, admitted:
            pass
        return refused.value.retry_after_s

    def admit(
        self, stack: ExitStack, profile: Profile, budget_s: float, tenant: TenantName = TENANT
    ) -> frozenset[str] | None:
        """What is shed of a query that stays for as long as the stack; None if refused."""
        deadline = self.within(budget_s)
        try:
            return stack.enter_context(self.admission.admitted(tenant, profile, deadline))
        except OverloadedError:
            return None

    def flood(self, stack: ExitStack, tenant: TenantName = TENANT, budget_s: float = 0.3) -> int:
        """The number of a tenant's queries that are admitted at once, and stay."""
        admitted = 0
        while self.admit(stack, PLAIN, budget_s, tenant) is not None:
            admitted += 1
        return admitted

    def limit(self, budget_s: float = 0.3) -> int:
        with ExitStack() as stack:
            return self.flood(stack, budget_s=budget_s)


@pytest.fixture
def busy() -> Busy:
    busy = Busy()
    busy.learn()
    return busy


@pytest.fixture
def shedding() -> Busy:
    """One that has seen queries with work that it may shed."""
    busy = Busy()
    busy.learn(profile=FULL)
    return busy


@pytest.mark.parametrize("others", [0, 100], ids=["idle", "busy"])
@pytest.mark.parametrize("budget_s", [0, 0.001])
def test_hopeless_budget_is_late_and_not_refused(budget_s: float, others: int) -> None:
    busy = Busy()
    busy.pending = others

    with ExitStack() as stack, pytest.raises(TooSlowError):
        busy.admit(stack, PLAIN, budget_s)


def test_least_budget_is_admitted_on_an_idle_service() -> None:
    busy = Busy()

    with ExitStack() as stack:
        assert busy.admit(stack, PLAIN, MIN_ANSWER_S) == frozenset()


def test_required_legs_are_not_shed(shedding: Busy) -> None:
    with ExitStack() as stack:
        while shedding.admit(stack, FULL, 0.3) in (frozenset(), frozenset({RERANK})):
            pass

        required = frozenset({"related"})
        with pytest.raises(OverloadedError):
            stack.enter_context(
                shedding.admission.admitted(TENANT, FULL, shedding.within(0.3), required)
            )
        assert shedding.admit(stack, FULL, 0.3) == ALL_SHED


@pytest.mark.parametrize("budget_s", [0.1, 0.3, 1.0])
def test_limit_fits_into_the_budget(busy: Busy, budget_s: float) -> None:
    assert 0.5 * budget_s <= busy.limit(budget_s) * SERVICE_TIME_S <= budget_s


def test_long_budget_is_admitted_unlike_a_short(busy: Busy) -> None:
    with ExitStack() as stack:
        busy.flood(stack, budget_s=0.1)

        assert busy.admit(stack, PLAIN, 1.0) is not None


def test_limit_follows_the_service_time() -> None:
    busy = Busy()
    limits = []
    for service_time_s in (0.01, 0.03, 0.01):
        busy.learn(service_time_s)
        limits.append(busy.limit(0.31))

    assert limits[1] < limits[0] / 2
    assert limits[2] == limits[0]


def test_idle_service_admits_the_minimum_concurrency() -> None:
    busy = Busy()
    busy.learn(5.0)

    assert busy.limit(MIN_ANSWER_S) == MIN_CONCURRENCY


def test_pending_calls_end_the_minimum_concurrency(busy: Busy) -> None:
    busy.pending = MIN_CONCURRENCY

    assert busy.limit(SERVICE_TIME_S) == 0


def test_pending_calls_count_as_in_flight(busy: Busy) -> None:
    before = busy.limit()

    busy.pending = 5

    assert busy.limit() == before - 5


RESERVED_PER_S = IDLE_TENANT_RESERVE / SERVICE_TIME_S


def admitted_of(busy: Busy, queries: int, tenant: TenantName) -> int:
    """How many of a tenant's queries are admitted, each of which ends before the next."""
    admitted = 0
    for _ in range(queries):
        with ExitStack() as stack:
            admitted += busy.admit(stack, PLAIN, 0.3, tenant) is not None
    return admitted


def test_reserve_is_kept_however_many_calls_are_pending(busy: Busy) -> None:
    busy.pending = 1000
    busy.clock.now += 1.01 * RESERVE_KEPT_S

    assert admitted_of(busy, 100, OTHER) == pytest.approx(RESERVED_PER_S * RESERVE_KEPT_S, abs=1)


def test_flooding_tenant_leaves_the_reserve_to_others(busy: Busy) -> None:
    busy.pending = 1000
    of_others = 0
    for _ in range(100):
        admitted_of(busy, 10, TENANT)
        of_others += admitted_of(busy, 1, OTHER)
        busy.clock.now += 2.01 / RESERVED_PER_S

    assert of_others == 100


def test_reserve_is_for_tenants_with_nothing_in_flight(busy: Busy) -> None:
    busy.pending = 1000

    with ExitStack() as stack:
        assert busy.admit(stack, PLAIN, 0.3, OTHER) is not None
        busy.clock.now += 1.01 * SERVICE_TIME_S / IDLE_TENANT_RESERVE
        assert busy.admit(stack, PLAIN, 0.3, OTHER) is None
        assert busy.admit(stack, PLAIN, 0.3, TENANT) is not None


def test_rejection_with_pending_calls_delays_the_retry(busy: Busy) -> None:
    busy.pending = 50

    assert busy.retry_after_s(SERVICE_TIME_S) >= 40 * SERVICE_TIME_S


def test_refusal_says_when_to_retry(busy: Busy) -> None:
    with ExitStack() as stack:
        busy.flood(stack, budget_s=0.1)

        assert MIN_RETRY_S <= busy.retry_after_s(0.1) <= 0.1


def test_single_slow_query_does_not_close_the_service(busy: Busy) -> None:
    before = busy.limit()

    busy.learn(1.0, queries=1)

    assert busy.limit() > before / 2


def test_slow_work_is_tried_again_after_a_while() -> None:
    busy = Busy()
    busy.learn(0.1)
    with ExitStack() as stack:
        busy.flood(stack)

        busy.clock.now += 5

        assert busy.admit(stack, PLAIN, 0.3) is not None


def test_pause_of_an_hour_keeps_a_limit(busy: Busy) -> None:
    busy.clock.now += 3600

    assert busy.limit(0.1) <= 4 * 0.1 / SERVICE_TIME_S


@pytest.mark.parametrize("pending", [0, 100])
def test_maximum_concurrency_bounds_long_budgets(pending: int) -> None:
    busy = Busy(max_concurrency=7)
    busy.learn()
    busy.pending = pending

    assert busy.limit(3600) == 7


@pytest.mark.parametrize(
    ("end", "seconds", "counts"),
    [
        (lambda: BudgetExhaustedError("reading"), 60, True),
        (asyncio.CancelledError, 40, True),
        (asyncio.CancelledError, 0.001, False),
        (lambda: AllLegsFailedError({}), 0.001, False),
    ],
    ids=["late", "cancelled late", "withdrawn", "failed"],
)
def test_late_queries_count_as_load(
    busy: Busy, end: Callable[[], BaseException], seconds: float, counts: bool
) -> None:
    before = busy.limit()
    busy.learn()

    for _ in range(100):
        with suppress(BaseException):
            busy.fail(seconds, end())

    assert (busy.limit() < before) is counts


def test_two_tenants_share_the_limit(busy: Busy) -> None:
    shared = Busy()
    shared.learn(tenant=OTHER)
    shared.learn()
    limit = busy.limit()

    with ExitStack() as stack:
        assert shared.flood(stack) == limit // 2
        assert shared.flood(stack, OTHER) == limit // 2


def test_half_of_the_limit_is_for_any_tenant() -> None:
    busy = Busy()
    for number in range(100):
        busy.learn(tenant=TenantName(f"tenant {number}"), queries=1)

    with ExitStack() as stack:
        assert busy.flood(stack) == 10
        assert busy.flood(stack, OTHER) == 1


def test_silent_tenant_loses_its_share() -> None:
    busy = Busy()
    busy.learn(tenant=OTHER)
    busy.clock.now += RECENT_TENANT_S
    busy.learn()

    with ExitStack() as stack:
        assert busy.flood(stack) >= 20


def test_reranking_is_shed_before_legs(shedding: Busy) -> None:
    shed = []
    with ExitStack() as stack:
        while (each := shedding.admit(stack, FULL, 0.3)) is not None:
            shed.append(each)

    assert list(dict.fromkeys(shed)) == [frozenset(), {RERANK}, ALL_SHED]


async def test_shed_work_is_labelled_and_words_answer(shedding: Busy) -> None:
    graph = FixedLeg("a")
    legs = {"lexical": FixedLeg("a"), "graph": graph, "related": graph}
    with ExitStack() as stack:
        while shedding.admit(stack, FULL, 0.3) != ALL_SHED:
            pass

        answer = await answered(
            [segment("a")], legs, FULL, deadline=shedding.within(0.3), admission=shedding.admission
        )

    assert hit_ids(answer) == ["a"]
    assert states(answer) == {
        "lexical": LegState.OK,
        "graph": LegState.SKIPPED,
        "related": LegState.SKIPPED,
    }
    assert {report.reason for report in answer.reports[1:]} == {SHED_REASON}
    assert not graph.requests
    assert answer.rerank is not None
    assert (answer.rerank.stage, answer.rerank.reason) == (Stage.COARSE, SHED_REASON)
    assert answer.shed == {RERANK, "graph", "related"}


# ---------------------------------------------------------------- overload


ONE_LEG = Profile(name="plain", legs=(LegSpec(name="lexical"),))
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
                with self._admission.admitted(tenant, ONE_LEG, deadline):
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
