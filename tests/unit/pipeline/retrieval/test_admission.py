"""What is admitted, shed and refused, on a clock that the test advances."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress

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
    SHED_REASON,
    Admission,
)
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.ordering import Stage
from tests.fakes.pipeline import FixedLeg
from tests.support.builders import TENANT, query, segment
from tests.support.stepped_clock import SteppedClock
from tests.unit.pipeline.retrieval.retrieving import hit_ids, retriever, states, store_of

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
            max_concurrency,
            sheddable=SHEDDABLE,
            pending=lambda: self.pending,
            clock=self.clock,
        )

    def learn(
        self,
        service_time_s: float = SERVICE_TIME_S,
        *,
        profile: Profile = PLAIN,
        queries: int = 100,
        tenant: TenantName = TENANT,
    ) -> None:
        """One query after the other."""
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

    def admit(
        self, stack: ExitStack, profile: Profile, budget_s: float, tenant: TenantName = TENANT
    ) -> frozenset[str] | None:
        """What is shed of a query that stays for as long as the stack; None if refused."""
        deadline = self.within(budget_s)
        try:
            return stack.enter_context(self.admission.admitted(tenant, profile, deadline))
        except OverloadedError:
            return None

    def flood(self, stack: ExitStack, tenant: TenantName = TENANT) -> int:
        """The number of a tenant's queries that are admitted at once, and stay."""
        admitted = 0
        while self.admit(stack, PLAIN, 0.3, tenant) is not None:
            admitted += 1
        return admitted

    def admitted(self, profile: Profile, budget_s: float) -> list[frozenset[str]]:
        """What is shed of each query, of as many at once as are admitted."""
        found: list[frozenset[str]] = []
        with ExitStack() as stack:
            while (shed := self.admit(stack, profile, budget_s)) is not None:
                found.append(shed)
        return found


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


def test_required_legs_are_not_shed() -> None:
    busy = Busy()
    busy.learn(profile=FULL)

    with ExitStack() as stack:
        while busy.admit(stack, FULL, 0.3) in (frozenset(), frozenset({RERANK})):
            pass

        with pytest.raises(OverloadedError):
            stack.enter_context(
                busy.admission.admitted(TENANT, FULL, busy.within(0.3), frozenset({"related"}))
            )
        assert busy.admit(stack, FULL, 0.3) == ALL_SHED


@pytest.mark.parametrize("budget_s", [0.1, 0.3, 1.0])
def test_limit_is_what_fits_into_the_budget(budget_s: float) -> None:
    busy = Busy()
    busy.learn()

    limit = len(busy.admitted(PLAIN, budget_s))

    assert 0.5 * budget_s <= limit * SERVICE_TIME_S <= budget_s


def test_long_budget_is_admitted_unlike_a_short() -> None:
    busy = Busy()
    busy.learn()

    with ExitStack() as stack:
        while busy.admit(stack, PLAIN, 0.1) is not None:
            pass

        assert busy.admit(stack, PLAIN, 1.0) is not None


def test_limit_follows_the_service_time() -> None:
    busy = Busy()
    limits = []
    for service_time_s in (0.01, 0.03, 0.01):
        busy.learn(service_time_s)
        limits.append(len(busy.admitted(PLAIN, 0.31)))

    assert limits[1] < limits[0] / 2
    assert limits[2] == limits[0]


def test_idle_service_admits_the_minimum_concurrency() -> None:
    busy = Busy()
    busy.learn(5.0)

    assert len(busy.admitted(PLAIN, MIN_ANSWER_S)) == MIN_CONCURRENCY


def test_pending_calls_end_the_minimum_concurrency() -> None:
    busy = Busy()
    busy.learn()

    busy.pending = MIN_CONCURRENCY

    assert busy.admitted(PLAIN, SERVICE_TIME_S) == []


def test_pending_calls_count_as_in_flight() -> None:
    limits = []
    for pending in (0, 5):
        busy = Busy()
        busy.learn()
        busy.pending = pending
        limits.append(len(busy.admitted(PLAIN, 0.3)))

    assert limits[1] == limits[0] - 5


def test_reserve_is_kept_however_many_calls_are_pending() -> None:
    busy = Busy()
    busy.learn()
    tenants = [TenantName(name) for name in "abcd"]

    busy.pending = 1000

    with ExitStack() as stack:
        admitted = [busy.admit(stack, PLAIN, 0.3, tenant) for tenant in tenants[:2]]
        busy.clock.now += 1.01 * SERVICE_TIME_S / IDLE_TENANT_RESERVE
        admitted += [busy.admit(stack, PLAIN, 0.3, tenant) for tenant in tenants[2:]]

    assert admitted == [frozenset(), None, frozenset(), None]


def test_reserve_is_for_tenants_with_nothing_in_flight() -> None:
    busy = Busy()
    busy.learn()

    busy.pending = 1000

    with ExitStack() as stack:
        assert busy.admit(stack, PLAIN, 0.3, OTHER) is not None
        busy.clock.now += 1.01 * SERVICE_TIME_S / IDLE_TENANT_RESERVE
        assert busy.admit(stack, PLAIN, 0.3, OTHER) is None
        assert busy.admit(stack, PLAIN, 0.3, TENANT) is not None


def test_rejection_with_pending_calls_delays_the_retry() -> None:
    busy = Busy()
    busy.learn()

    busy.pending = 50
    with (
        pytest.raises(OverloadedError) as refused,
        busy.admission.admitted(TENANT, PLAIN, busy.within(SERVICE_TIME_S)),
    ):
        pass

    assert refused.value.retry_after_s >= 40 * SERVICE_TIME_S


def test_single_slow_query_does_not_close_the_service() -> None:
    busy = Busy()
    busy.learn()
    before = len(busy.admitted(PLAIN, 0.3))

    busy.learn(1.0, queries=1)

    assert len(busy.admitted(PLAIN, 0.3)) > before / 2


def test_slow_work_is_tried_again_after_a_while() -> None:
    busy = Busy()
    busy.learn(0.1)
    with ExitStack() as stack:
        while busy.admit(stack, PLAIN, 0.3) is not None:
            pass

        busy.clock.now += 5

        assert busy.admit(stack, PLAIN, 0.3) is not None


def test_pause_of_an_hour_keeps_a_limit() -> None:
    busy = Busy()
    busy.learn()

    busy.clock.now += 3600

    assert len(busy.admitted(PLAIN, 0.1)) <= 4 * 0.1 / SERVICE_TIME_S


@pytest.mark.parametrize("pending", [0, 100])
def test_maximum_concurrency_bounds_long_budgets(pending: int) -> None:
    busy = Busy(max_concurrency=7)
    busy.learn()

    busy.pending = pending

    assert len(busy.admitted(PLAIN, 3600)) == 7


def test_refusal_says_when_to_retry() -> None:
    busy = Busy()
    busy.learn()

    with ExitStack() as stack:
        while busy.admit(stack, PLAIN, 0.1) is not None:
            pass
        with pytest.raises(OverloadedError) as refused:
            stack.enter_context(busy.admission.admitted(TENANT, PLAIN, busy.within(0.1)))

    assert MIN_RETRY_S <= refused.value.retry_after_s <= 0.1


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
    end: Callable[[], BaseException], seconds: float, counts: bool
) -> None:
    busy = Busy()
    busy.learn()
    before = len(busy.admitted(PLAIN, 0.3))
    busy.learn()

    for _ in range(100):
        with suppress(BaseException):
            busy.fail(seconds, end())

    assert (len(busy.admitted(PLAIN, 0.3)) < before) is counts


def test_two_tenants_share_the_limit() -> None:
    alone, shared = Busy(), Busy()
    alone.learn()
    shared.learn(tenant=OTHER)
    shared.learn()

    with ExitStack() as stack:
        limit = alone.flood(stack)
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


def test_reranking_is_shed_before_legs() -> None:
    busy = Busy()
    busy.learn(profile=FULL)

    shed = busy.admitted(FULL, 0.3)

    assert list(dict.fromkeys(shed)) == [
        frozenset(),
        {RERANK},
        ALL_SHED,
    ]


async def test_shed_work_is_labelled_and_words_answer() -> None:
    busy = Busy()
    busy.learn(profile=FULL)
    graph = FixedLeg("a")
    answering = retriever(
        await store_of(segment("a")),
        {"lexical": FixedLeg("a"), "graph": graph, "related": graph},
        admission=busy.admission,
    )
    with ExitStack() as stack:
        while busy.admit(stack, FULL, 0.3) != ALL_SHED:
            pass

        answer = await answering.retrieve(query("?"), FULL, busy.within(0.3))

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
