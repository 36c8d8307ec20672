"""What is admitted, shed and refused, on a clock that the test advances."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from types import MappingProxyType

import pytest

from serving.domain.budget import Deadline
from serving.domain.errors import AllLegsFailedError, BudgetExhaustedError, OverloadedError
from serving.domain.items.records import TenantName
from serving.domain.ranking.leg_options import Expansion
from serving.domain.ranking.profile import LegSpec, Profile, Rerank
from serving.pipeline.retrieval.admission import (
    KEPT,
    LATELY_S,
    LEAST_CONCURRENT,
    LEAST_RETRY_S,
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
COST_S = 0.010
OTHER = TenantName("other")


class Busy:
    """An admission under a load whose questions each cost so much."""

    def __init__(
        self, *, most: int = 1000, weights: Mapping[TenantName, float] = MappingProxyType({})
    ) -> None:
        self.clock = SteppedClock()
        self.pending = 0
        self.admission = Admission(most, self.clock, weights, lambda: self.pending)

    def learn(
        self,
        cost_s: float,
        *,
        profile: Profile = PLAIN,
        calls: int = 100,
        tenant: TenantName = TENANT,
    ) -> None:
        """One question after the other."""
        for _ in range(calls):
            with self.admission.admitted(tenant, profile, self.within(60)):
                self.clock.now += cost_s

    def ask(self, seconds: float, end: BaseException) -> None:
        """A question that ends so after that time."""
        with self.admission.admitted(TENANT, PLAIN, self.within(60)):
            self.clock.now += seconds
            raise end

    def within(self, seconds: float) -> Deadline:
        return Deadline.after(seconds, self.clock)

    def admit(
        self, stack: ExitStack, profile: Profile, budget_s: float, tenant: TenantName = TENANT
    ) -> frozenset[str] | None:
        """What is shed of a question that stays for as long as the stack; None if refused."""
        deadline = self.within(budget_s)
        try:
            return stack.enter_context(self.admission.admitted(tenant, profile, deadline))
        except OverloadedError:
            return None

    def flood(self, stack: ExitStack, tenant: TenantName = TENANT) -> int:
        """The number of a tenant's questions that are admitted at once, and stay."""
        admitted = 0
        while self.admit(stack, PLAIN, 0.3, tenant) is not None:
            admitted += 1
        return admitted

    def admitted(self, profile: Profile, budget_s: float) -> list[frozenset[str]]:
        """What is shed of each question, of as many at once as are admitted."""
        found: list[frozenset[str]] = []
        with ExitStack() as stack:
            while len(found) < 200:
                shed = self.admit(stack, profile, budget_s)
                if shed is None:
                    break
                found.append(shed)
        return found


def test_a_question_that_waited_for_its_whole_budget_is_refused_on_an_idle_service() -> None:
    busy = Busy()

    with ExitStack() as stack:
        assert busy.admit(stack, PLAIN, 0) is None
        assert busy.admit(stack, PLAIN, 0.001) == frozenset()


def test_what_a_caller_requires_is_not_shed() -> None:
    busy = Busy()
    busy.learn(COST_S, profile=FULL)

    with ExitStack() as stack:
        while busy.admit(stack, FULL, 0.3) in (frozenset(), frozenset({"rerank"})):
            pass

        with pytest.raises(OverloadedError):
            stack.enter_context(
                busy.admission.admitted(TENANT, FULL, busy.within(0.3), frozenset({"related"}))
            )
        shed = busy.admit(stack, FULL, 0.3)
        assert shed is not None
        assert shed == {"rerank", "related"}


@pytest.mark.parametrize("budget_s", [0.1, 0.3, 1.0])
def test_as_many_are_admitted_as_are_answered_within_the_budget(budget_s: float) -> None:
    busy = Busy()
    busy.learn(COST_S)

    limit = len(busy.admitted(PLAIN, budget_s))

    assert 0.5 * budget_s <= limit * COST_S <= budget_s


def test_a_long_budget_is_admitted_where_a_short_one_is_refused() -> None:
    busy = Busy()
    busy.learn(COST_S)

    with ExitStack() as stack:
        while busy.admit(stack, PLAIN, 0.1) is not None:
            pass

        assert busy.admit(stack, PLAIN, 1.0) is not None


def test_a_service_that_became_slower_admits_fewer_and_one_that_recovered_admits_more() -> None:
    busy = Busy()
    limits = []
    for cost_s in (0.01, 0.03, 0.01):
        busy.learn(cost_s)
        limits.append(len(busy.admitted(PLAIN, 0.3)))

    assert limits[1] < limits[0] / 2
    assert limits[2] == limits[0]


def test_an_idle_service_admits_whatever_the_budget() -> None:
    busy = Busy()
    busy.learn(5.0)

    assert len(busy.admitted(PLAIN, 0.001)) == LEAST_CONCURRENT


def test_with_calls_pending_nothing_is_admitted_that_is_predicted_to_be_late() -> None:
    busy = Busy()
    busy.learn(COST_S)

    busy.pending = LEAST_CONCURRENT

    assert busy.admitted(PLAIN, COST_S) == []


def test_calls_that_are_pending_count_as_those_in_flight() -> None:
    limits = []
    for pending in (0, 5):
        busy = Busy()
        busy.learn(COST_S)
        busy.pending = pending
        limits.append(len(busy.admitted(PLAIN, 0.3)))

    assert limits[1] == limits[0] - 5


def test_however_many_calls_are_pending_a_part_of_the_capacity_is_kept() -> None:
    busy = Busy()
    busy.learn(COST_S)
    tenants = [TenantName(name) for name in "abcd"]

    busy.pending = 1000

    with ExitStack() as stack:
        admitted = [busy.admit(stack, PLAIN, 0.3, tenant) for tenant in tenants[:2]]
        busy.clock.now += 1.01 * COST_S / KEPT
        admitted += [busy.admit(stack, PLAIN, 0.3, tenant) for tenant in tenants[2:]]

    assert admitted == [frozenset(), None, frozenset(), None]


def test_what_is_kept_is_for_tenants_with_no_question_in_flight() -> None:
    busy = Busy()
    busy.learn(COST_S)

    busy.pending = 1000

    with ExitStack() as stack:
        assert busy.admit(stack, PLAIN, 0.3, OTHER) is not None
        busy.clock.now += 1.01 * COST_S / KEPT
        assert busy.admit(stack, PLAIN, 0.3, OTHER) is None
        assert busy.admit(stack, PLAIN, 0.3, TENANT) is not None


def test_with_calls_pending_the_most_at_once_is_as_many() -> None:
    busy = Busy(most=7)
    busy.learn(COST_S)

    busy.pending = 100

    assert len(busy.admitted(PLAIN, 3600)) == 7


def test_with_calls_pending_a_refusal_says_to_try_again_later() -> None:
    busy = Busy()
    busy.learn(COST_S)

    busy.pending = 50
    with (
        pytest.raises(OverloadedError) as refused,
        busy.admission.admitted(TENANT, PLAIN, busy.within(COST_S)),
    ):
        pass

    assert refused.value.retry_after_s >= 40 * COST_S


def test_one_slow_question_does_not_close_the_service() -> None:
    busy = Busy()
    busy.learn(COST_S)
    before = len(busy.admitted(PLAIN, 0.3))

    busy.learn(30.0, calls=1)

    assert len(busy.admitted(PLAIN, 0.3)) > before / 2


def test_what_was_too_slow_is_tried_again_after_a_while() -> None:
    busy = Busy()
    busy.learn(0.1)
    with ExitStack() as stack:
        while busy.admit(stack, PLAIN, 0.3) is not None:
            pass

        busy.clock.now += 5

        assert busy.admit(stack, PLAIN, 0.3) is not None


def test_after_a_pause_of_an_hour_not_all_are_admitted() -> None:
    busy = Busy()
    busy.learn(COST_S)

    busy.clock.now += 3600

    assert len(busy.admitted(PLAIN, 0.1)) <= 4 * 0.1 / COST_S


def test_no_budget_is_long_enough_for_more_than_the_most() -> None:
    busy = Busy(most=7)
    busy.learn(COST_S)

    assert len(busy.admitted(PLAIN, 3600)) == 7


def test_a_refusal_says_when_to_try_again() -> None:
    busy = Busy()
    busy.learn(COST_S)

    with ExitStack() as stack:
        while busy.admit(stack, PLAIN, 0.1) is not None:
            pass
        with pytest.raises(OverloadedError) as refused:
            stack.enter_context(busy.admission.admitted(TENANT, PLAIN, busy.within(0.1)))

    assert LEAST_RETRY_S <= refused.value.retry_after_s <= 0.1


@pytest.mark.parametrize(
    ("end", "seconds", "counts"),
    [
        (lambda: BudgetExhaustedError("reading"), 0.001, True),
        (asyncio.CancelledError, 40, True),
        (asyncio.CancelledError, 0.001, False),
        (lambda: AllLegsFailedError({}), 0.001, False),
    ],
    ids=["late", "cancelled late", "withdrawn", "failed"],
)
def test_a_question_that_was_late_counts_and_one_that_was_withdrawn_or_failed_does_not(
    end: Callable[[], BaseException], seconds: float, counts: bool
) -> None:
    busy = Busy()
    busy.learn(COST_S)
    before = len(busy.admitted(PLAIN, 0.3))
    busy.learn(COST_S)

    for _ in range(100):
        with suppress(BaseException):
            busy.ask(seconds, end())

    assert (len(busy.admitted(PLAIN, 0.3)) < before) is counts


def test_of_two_tenants_each_has_half_of_what_one_alone_has() -> None:
    alone, shared = Busy(), Busy()
    alone.learn(COST_S)
    shared.learn(COST_S, tenant=OTHER)
    shared.learn(COST_S)

    with ExitStack() as stack:
        limit = alone.flood(stack)
        assert shared.flood(stack) == limit // 2
        assert shared.flood(stack, OTHER) == limit - limit // 2


@pytest.mark.parametrize("weight", [3, 1 / 3])
def test_shares_are_in_proportion_to_the_weights(weight: float) -> None:
    alone, shared = Busy(), Busy(weights={OTHER: weight})
    alone.learn(COST_S)
    shared.learn(COST_S)
    shared.learn(COST_S, tenant=OTHER)
    # The heavier one asks first: half of the limit is for anyone, which is more than a quarter.
    heavier, lighter = (OTHER, TENANT) if weight > 1 else (TENANT, OTHER)

    with ExitStack() as stack:
        limit = alone.flood(stack)
        assert shared.flood(stack, heavier) == 3 * limit // 4
        assert shared.flood(stack, lighter) == limit - 3 * limit // 4


def test_a_tenant_that_asked_long_ago_takes_its_weight_with_it() -> None:
    busy = Busy(weights={OTHER: 100})
    busy.learn(COST_S, tenant=OTHER)
    busy.clock.now += LATELY_S
    busy.learn(COST_S)

    with ExitStack() as stack:
        assert busy.flood(stack) >= 20


def test_shares_do_not_count_while_half_of_the_limit_is_free() -> None:
    busy = Busy()
    for number in range(100):
        busy.learn(COST_S, tenant=TenantName(f"tenant {number}"), calls=1)

    with ExitStack() as stack:
        assert busy.flood(stack) == 10
        assert busy.flood(stack, OTHER) == 1


def test_a_tenant_with_time_has_three_quarters_of_the_slots_whatever_its_share() -> None:
    busy = Busy(most=20)
    for number in range(100):
        busy.learn(COST_S / 10, tenant=TenantName(f"tenant {number}"), calls=1)

    with ExitStack() as stack:
        assert busy.flood(stack) == 15
        assert busy.admit(stack, PLAIN, 0.3, OTHER) is not None


def test_a_tenant_that_asked_long_ago_has_no_share() -> None:
    busy = Busy()
    busy.learn(COST_S, tenant=OTHER)
    busy.clock.now += LATELY_S
    busy.learn(COST_S)

    with ExitStack() as stack:
        assert busy.flood(stack) >= 20


def test_optional_work_is_shed_before_a_question_is_refused_reranking_first() -> None:
    busy = Busy()
    busy.learn(COST_S, profile=FULL)

    shed = busy.admitted(FULL, 0.3)

    assert list(dict.fromkeys(shed)) == [
        frozenset(),
        {RERANK},
        {RERANK, "related"},
        {RERANK, "related", "graph"},
    ]


async def test_what_is_shed_is_labelled_and_the_words_answer() -> None:
    busy = Busy()
    busy.learn(COST_S, profile=FULL)
    graph = FixedLeg("a")
    answering = retriever(
        await store_of(segment("a")),
        {"lexical": FixedLeg("a"), "graph": graph, "related": graph},
        admission=busy.admission,
    )
    with ExitStack() as stack:
        while busy.admit(stack, FULL, 0.3) != frozenset({RERANK, "related", "graph"}):
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
