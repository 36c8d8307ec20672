"""When a dependency is not asked any more, and when again; on a clock that the test advances."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from serving.domain.breaker import (
    EARLY_S,
    FAILURES,
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    PROBE_S,
    Breaker,
    BreakerState,
)
from serving.domain.budget import Deadline
from serving.domain.errors import (
    BreakerOpenError,
    DependencyError,
    NotReadyError,
    StoreUnavailableError,
)
from serving.domain.ranking.profile import LegSpec, Profile
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.legs.leg import LegAnswer, LegRequest
from tests.fakes.pipeline import BrokenLeg, FixedLeg
from tests.support.builders import query, segment
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting import until_async
from tests.unit.pipeline.retrieval.retrieving import hit_ids, retriever, soon, states, store_of

GONE = DependencyError("graph", "refused")
PATIENCE_S = 0.08


class Dependency:
    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.states: list[BreakerState] = []
        self.breaker = Breaker("graph", lambda _, state: self.states.append(state), self.clock)

    async def call(
        self,
        end: BaseException | None = None,
        *,
        question: object = None,
        takes_s: float = 0.005,
        within_s: float = PATIENCE_S,
    ) -> None:
        """A call that ends so after that time."""

        async def made(_: Deadline) -> None:
            self.clock.now += takes_s
            if end is not None:
                raise end

        deadline = Deadline.after(within_s, self.clock)
        await self.breaker.ask(question or object(), deadline, made)

    async def hang(
        self, times: int = 1, *, question: object = None, within_s: float = PATIENCE_S
    ) -> None:
        """Calls that are not answered in time."""
        for _ in range(times):
            with suppress(TimeoutError):
                await self.call(
                    TimeoutError(), question=question, takes_s=within_s, within_s=within_s
                )

    async def open(self) -> None:
        """Fails until it is not asked, and waits until it is probed."""
        await self.hang(FAILURES)
        self.clock.now += FIRST_PAUSE_S

    async def probe(self, end: BaseException | None = None) -> None:
        """A call that is refused, and made as a probe that ends so."""
        with pytest.raises(BreakerOpenError):
            await self.call(end, takes_s=0.0)
        await until_async(self.is_probed)

    async def is_probed(self) -> bool:
        return self.states[-1] is not BreakerState.HALF_OPEN

    async def is_closed(self) -> bool:
        return not self.breaker.trouble

    async def is_asked(self) -> bool:
        """Whether a call passes; it is one that tells nothing."""
        try:
            await self.call(NotReadyError("graph", "filling"))
        except BreakerOpenError:
            return False
        except NotReadyError:
            return True
        return True


async def test_hung_dependency_costs_three_queries() -> None:
    asked = Dependency()
    for _ in range(FAILURES):
        assert not asked.breaker.trouble
        await asked.hang()
    before = asked.clock.now

    with pytest.raises(BreakerOpenError, match="3 failures in a row"):
        await asked.call()

    assert asked.clock.now == before
    assert "no answer in time" in asked.breaker.trouble


async def test_the_calls_of_one_question_count_once() -> None:
    asked, question = Dependency(), object()

    await asked.hang(2 * FAILURES, question=question)

    assert await asked.is_asked()


async def test_answer_in_between_keeps_the_breaker_closed() -> None:
    asked = Dependency()
    for _ in range(3):
        await asked.hang(FAILURES - 1)
        await asked.call()

    assert await asked.is_asked()
    assert not asked.states


@pytest.mark.parametrize(
    ("answers", "takes_s", "hangs", "within_s", "opens"),
    [
        (1, 1.5, FAILURES, PATIENCE_S, True),  # as Neo4j, which plans its first statements
        (50, 0.9, FAILURES, 0.8, True),
        (50, 0.060, 2 * FAILURES, 0.050, False),
        (0, 0, 2 * FAILURES, 0.010, False),
    ],
    ids=["slow at first", "slow", "slower than the budget", "little time"],
)
async def test_only_hangs_for_the_usual_time_open_the_breaker(
    answers: int, takes_s: float, hangs: int, within_s: float, opens: bool
) -> None:
    asked = Dependency()
    for _ in range(answers):
        await asked.call(takes_s=takes_s, within_s=2)

    await asked.hang(hangs, within_s=within_s)

    assert await asked.is_asked() is not opens


async def test_errors_count_as_no_answer_does() -> None:
    asked = Dependency()
    for _ in range(FAILURES):
        with suppress(DependencyError):
            await asked.call(GONE)

    assert not await asked.is_asked()
    assert "graph: refused" in asked.breaker.trouble


@pytest.mark.parametrize(
    "end",
    [
        NotReadyError("graph", "filling"),
        BreakerOpenError("embedder", "not asked"),
        StoreUnavailableError("refused"),
        asyncio.CancelledError(),
        ValueError("a bug"),
    ],
)
async def test_errors_of_others_do_not_count(end: BaseException) -> None:
    asked = Dependency()
    for _ in range(2 * FAILURES):
        with suppress(BaseException):
            await asked.call(end)

    assert await asked.is_asked()


@pytest.mark.parametrize(
    ("within_s", "before_the_deadline_s", "counts"),
    [
        (PATIENCE_S, 0.0, True),
        (PATIENCE_S, EARLY_S / 2, True),
        (PATIENCE_S, PATIENCE_S / 2, False),
        (1.0, 0.04, True),
        (1.0, 0.08, False),
    ],
)
async def test_cancellation_at_the_deadline_alone_is_a_failure(
    within_s: float, before_the_deadline_s: float, *, counts: bool
) -> None:
    asked = Dependency()
    await asked.call(takes_s=0.005)
    takes_s = within_s - before_the_deadline_s
    for _ in range(FAILURES):
        with suppress(asyncio.CancelledError):
            await asked.call(asyncio.CancelledError(), takes_s=takes_s, within_s=within_s)

    assert await asked.is_asked() is not counts


async def test_answered_probe_closes_the_breaker() -> None:
    asked = Dependency()
    await asked.open()

    await asked.probe()

    assert asked.states == [BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED]
    await asked.hang()  # it takes three failures again
    await asked.call()


async def test_failed_probe_delays_the_next_within_bounds() -> None:
    asked = Dependency()
    await asked.open()
    asked.clock.now -= FIRST_PAUSE_S
    pauses = []
    for _ in range(6):
        opened, probes = asked.clock.now, asked.states.count(BreakerState.HALF_OPEN)
        while asked.states.count(BreakerState.HALF_OPEN) == probes:
            asked.clock.now += 0.25
            await asked.probe(GONE)
        pauses.append(asked.clock.now - opened)

    assert pauses == [0.5, 1, 2, 4, 4, 4]
    assert pauses[-1] == MAX_PAUSE_S


async def test_probe_that_tells_nothing_admits_the_next() -> None:
    asked = Dependency()
    await asked.open()

    await asked.probe(NotReadyError("graph", "filling"))
    await asked.probe()

    assert asked.states[-1] is BreakerState.CLOSED


async def test_probe_needs_no_further_question() -> None:
    asked, hangs = Dependency(), True

    async def call(_: Deadline) -> None:
        if hangs:
            asked.clock.now += PATIENCE_S
            raise TimeoutError

    for _ in range(FAILURES):
        with suppress(TimeoutError):
            await asked.breaker.ask(object(), Deadline.after(PATIENCE_S, asked.clock), call)
    hangs = False
    asked.breaker.probe_if_due()
    assert asked.states == [BreakerState.OPEN]
    asked.clock.now += FIRST_PAUSE_S

    asked.breaker.probe_if_due()
    await until_async(asked.is_closed)

    assert asked.states == [BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED]
    asked.breaker.probe_if_due()


async def test_no_caller_waits_for_a_probe() -> None:
    asked, answered = Dependency(), asyncio.Event()
    await asked.open()
    probed = []

    async def call(deadline: Deadline) -> None:
        probed.append(deadline)
        await answered.wait()

    for _ in range(3):
        with pytest.raises(BreakerOpenError):
            await asked.breaker.ask(object(), Deadline.after(PATIENCE_S, asked.clock), call)
        await asyncio.sleep(0)

    assert [deadline.remaining() for deadline in probed] == [PROBE_S]
    answered.set()
    await until_async(asked.is_closed)
    await asked.breaker.ask(object(), Deadline.after(PATIENCE_S, asked.clock), call)


TWO_LEGS = Profile(name="two", legs=(LegSpec(name="lexical"), LegSpec(name="graph")))


class CountedBrokenLeg(BrokenLeg):
    asked = 0

    async def find(self, request: LegRequest) -> LegAnswer:
        return await request.ask("graph", lambda _: self._ask(request))

    async def _ask(self, request: LegRequest) -> LegAnswer:
        self.asked += 1
        return await super().find(request)


async def test_leg_of_an_open_breaker_is_reported_failed() -> None:
    graph = CountedBrokenLeg(GONE)
    answering = retriever(
        await store_of(segment("a")),
        {"lexical": FixedLeg("a"), "graph": graph},
    )
    for _ in range(FAILURES + 4):
        answer = await answering.retrieve(query("?"), TWO_LEGS, soon())

    assert graph.asked == FAILURES
    assert hit_ids(answer) == ["a"]
    assert states(answer) == {"lexical": LegState.OK, "graph": LegState.FAILED}
    assert "graph: breaker open" in answer.reports[1].reason
