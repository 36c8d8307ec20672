"""Whatever legs and store do, a question is answered in time, and the labels say what happened.

Legs answer after a while, fail after a while, or hang; the store is slow; callers go away; all at
random, in the time of a loop whose clock jumps.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVarTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.config.profiles import ProfileBook
from serving.domain.breaker import FAILURES, FIRST_PAUSE_S, POSTGRES, Breaker, all_breakers
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import (
    AllLegsFailedError,
    BudgetExhaustedError,
    DependencyError,
    OverloadedError,
    StoreUnavailableError,
    TriviumError,
)
from serving.domain.items.period import Period
from serving.domain.items.records import Item, ItemId, Segment
from serving.domain.ranking.profile import LegSpec, Profile
from serving.pipeline.index.vector_space import EmbeddedSearch, VectorSpace
from serving.pipeline.retrieval import legs
from serving.pipeline.retrieval.admission import Admission
from serving.pipeline.retrieval.holding import Holding
from serving.pipeline.retrieval.leg_runner import LegReport, LegState
from serving.pipeline.retrieval.legs import LEGS as LEGS_BY_NAME
from serving.pipeline.retrieval.legs.leg import Leg, LegAnswer, LegRequest, LegSkippedError
from serving.pipeline.retrieval.retrieve import Retriever
from serving.pipeline.retrieval.steps import Retrieval, RetrievalSteps
from serving.ports.change_log import Projection
from serving.ports.embedding import Vector
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import (
    FixedConsistency,
    FixedDates,
    FixedLeg,
    FixedNames,
    FixedReranker,
    HangingLeg,
    RecordingAccess,
)
from tests.fakes.simulation.virtual_time import VirtualTimeLoop, run_in_virtual_time
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryTimeline
from tests.fakes.words import InMemoryWords
from tests.support.builders import NOON, batch_of, days, fact, query, segment
from tests.support.examples import examples
from tests.unit.pipeline.retrieval.retrieving import retriever, steps

LEGS = ("lexical", "dense", "graph")
BEYOND_POSTGRES = [name for name in LEGS if LEGS_BY_NAME[name].dependency != POSTGRES]
PROFILE = Profile(name="three", legs=tuple(LegSpec(name=name, floor=0.0) for name in LEGS))
ROUNDING_S = 1e-9
NEVER_S = 1e6


class How(Enum):
    """How a leg ends, if it is given the time."""

    ANSWERS = LegState.OK
    FAILS = LegState.FAILED
    RAISES = "raises"
    SKIPS = LegState.SKIPPED
    HANGS = LegState.TIMED_OUT


@dataclass(frozen=True)
class Fault:
    """What happens to a leg, and after how many seconds."""

    how: How
    after_s: float

    @property
    def takes_s(self) -> float:
        return NEVER_S if self.how is How.HANGS else self.after_s

    def state(self, time_s: float) -> LegState:
        """What the leg is to be labelled, if it had so much time."""
        if self.takes_s >= time_s:
            return LegState.TIMED_OUT
        return LegState.FAILED if self.how is How.RAISES else LegState(self.how.value)


ANSWERS = Fault(How.ANSWERS, 0.005)
HANGS = Fault(How.HANGS, NEVER_S)

# Not a multiple of a millisecond, as the time of the legs is: it is clear which comes first.
SECONDS = st.integers(0, 400).map(lambda number: number / 1e3 + 0.0003)
FAULTS = st.builds(Fault, st.sampled_from(How), SECONDS)
BUDGETS = st.integers(4, 60).map(lambda number: number / 200)


class FaultyLeg(Leg):
    """Asks a dependency that ends as it is told, question by question; counts what still runs."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults = list(faults)
        self.time_s: list[float] = []
        self.running = 0

    async def find(self, request: LegRequest) -> LegAnswer:
        dependency = LEGS_BY_NAME[request.spec.name].dependency
        return await request.ask(dependency, lambda _: self._ask(request))

    async def _ask(self, request: LegRequest) -> LegAnswer:
        fault = self._faults[len(self.time_s) % len(self._faults)]
        self.time_s.append(request.deadline.remaining())
        self.running += 1
        try:
            await asyncio.sleep(fault.takes_s)
        finally:
            self.running -= 1
        match fault.how:
            case How.FAILS:
                raise DependencyError("leg", "refused")
            case How.RAISES:
                raise RuntimeError("a bug")
            case How.SKIPS:
                raise LegSkippedError("nothing to ask")
            case _:
                return await FixedLeg("a").find(request)


class FaultyLegOverFacts(FaultyLeg):
    """A leg that a memory without facts need not ask."""

    needs_facts = True


class SlowStore(InMemoryStore):
    """Reads rows after a while."""

    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self._takes_s = takes_s

    async def load(self, *asked: Any) -> dict[ItemId, Item]:
        await asyncio.sleep(self._takes_s)
        return await super().load(*asked)


@dataclass(frozen=True)
class TimedQuery:
    """A question: when it comes, its budget, and when its caller goes away, if it does."""

    at_s: float
    budget_s: float
    gone_s: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of a question, after how long."""

    seconds: float
    answer: Retrieval | None = None
    error: BaseException | None = None


async def faulty(
    legs: Mapping[str, Leg], store_s: float = 0.0, breakers: Mapping[str, Breaker] | None = None
) -> Retriever:
    store = SlowStore(store_s)
    await store.write(batch_of(segment("a"), fact("f", "Ann", "likes", "Goa")))
    clock = asyncio.get_running_loop().time
    return retriever(store, legs, admission=Admission(clock=clock), breakers=breakers)


async def ask(answering: Retriever, asked: TimedQuery) -> Outcome:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(asked.at_s - loop.time())
    started = loop.time()
    deadline = Deadline.after(asked.budget_s, loop.time)
    task = asyncio.create_task(answering.retrieve(query("?"), PROFILE, deadline))
    if asked.gone_s is not None:
        loop.call_later(asked.gone_s, task.cancel)
    try:
        answer = await task
    except (TriviumError, asyncio.CancelledError) as error:
        return Outcome(loop.time() - started, error=error)
    return Outcome(loop.time() - started, answer)


@settings(deadline=None, max_examples=examples(150))
@given(faults=st.tuples(FAULTS, FAULTS, FAULTS), budget_s=BUDGETS, store_s=st.just(0.0) | SECONDS)
def test_query_ends_in_time_with_labelled_legs(
    faults: Sequence[Fault], budget_s: float, store_s: float
) -> None:
    legs = {name: FaultyLeg([fault]) for name, fault in zip(LEGS, faults, strict=True)}

    async def one() -> Outcome:
        return await ask(await faulty(legs, store_s), TimedQuery(0, budget_s))

    outcome = run_in_virtual_time(one())

    assert outcome.seconds <= budget_s + ROUNDING_S
    expected = [fault.state(legs[name].time_s[0]) for name, fault in zip(LEGS, faults, strict=True)]
    if outcome.answer is not None:
        assert [report.state for report in outcome.answer.reports] == expected
        assert bool(outcome.answer.hits) is (LegState.OK in expected)
    elif isinstance(outcome.error, AllLegsFailedError):
        assert set(expected) - {LegState.SKIPPED} == {LegState.FAILED}
    else:
        assert isinstance(outcome.error, BudgetExhaustedError)
        assert store_s > 0


def test_leg_that_waits_for_itself_is_stopped() -> None:
    async def one() -> Outcome:
        legs = {"lexical": FixedLeg("a"), "dense": HangingLeg()}
        return await ask(await faulty(legs), TimedQuery(0, 0.1))

    answer = run_in_virtual_time(one()).answer

    assert answer is not None
    assert [report.state for report in answer.reports[:2]] == [LegState.OK, LegState.TIMED_OUT]


QUESTIONS = st.lists(
    st.builds(TimedQuery, SECONDS.map(lambda seconds: 4 * seconds), BUDGETS, st.none() | SECONDS),
    min_size=1,
    max_size=30,
)


@settings(deadline=None, max_examples=examples(100))
@given(
    questions=QUESTIONS,
    faults=st.tuples(*[st.lists(FAULTS, min_size=1, max_size=6)] * 3),
    store_s=st.just(0.0) | SECONDS,
)
def test_queries_with_faults_end_in_time(
    questions: Sequence[TimedQuery], faults: Sequence[Sequence[Fault]], store_s: float
) -> None:
    legs = {name: FaultyLeg(each) for name, each in zip(LEGS, faults, strict=True)}

    async def all_of_them() -> list[Outcome]:
        clock = asyncio.get_running_loop().time
        breakers = all_breakers(clock=clock)
        answering = await faulty(legs, store_s, breakers)
        outcomes = await asyncio.gather(*(ask(answering, each) for each in questions))
        await asyncio.sleep(0.001)
        return outcomes

    outcomes = run_in_virtual_time(all_of_them())

    for asked, outcome in zip(questions, outcomes, strict=True):
        assert outcome.seconds <= min(asked.budget_s, asked.gone_s or NEVER_S) + ROUNDING_S
        if isinstance(outcome.error, OverloadedError):
            assert outcome.seconds == 0
        if outcome.answer is not None:
            assert all(_is_labelled(report) for report in outcome.answer.reports)
    assert [leg.running for leg in legs.values()] == [0, 0, 0]


def _is_labelled(report: LegReport) -> bool:
    """Whether it gives a reason, unless the leg answered."""
    return (report.state is LegState.OK) is (report.reason == "")


def ten_queries(legs: Mapping[str, FaultyLeg], store_s: float = 0.0) -> list[Outcome]:
    """What comes of ten questions of 0.1 s, one after the other, behind breakers."""

    async def ten() -> list[Outcome]:
        clock = asyncio.get_running_loop().time
        breakers = all_breakers(clock=clock)
        answering = await faulty(legs, store_s, breakers)
        return [await ask(answering, TimedQuery(clock(), 0.1)) for _ in range(10)]

    return run_in_virtual_time(ten())


def test_hung_postgres_costs_three_queries_their_budget() -> None:
    # That there are facts is known without asking the store.
    legs = {leg: FaultyLegOverFacts([ANSWERS]) for leg in BEYOND_POSTGRES}
    of_postgres = {leg: FaultyLeg([HANGS]) for leg in set(LEGS) - legs.keys()}
    outcomes = ten_queries({**legs, **of_postgres}, NEVER_S)

    late, refused = outcomes[: FAILURES - 1], outcomes[FAILURES - 1 :]
    assert {type(outcome.error) for outcome in late} == {BudgetExhaustedError}
    # The third failure is that of words, after which rows are not asked for.
    assert {type(outcome.error) for outcome in refused} == {StoreUnavailableError}
    assert all(outcome.seconds <= 2 * ANSWERS.after_s for outcome in refused[1:])


def test_slow_words_leave_the_breaker_of_postgres_closed() -> None:
    legs = {leg: FaultyLeg([ANSWERS]) for leg in LEGS} | {"lexical": FaultyLeg([HANGS])}

    outcomes = ten_queries(legs)

    assert all(outcome.answer is not None and outcome.answer.hits for outcome in outcomes)


# ---------------------------------------------------------------- one of the ports hangs


Given = TypeVarTuple("Given")

PROFILES = ProfileBook.load()
ASKED = 10
BUDGET_S = 1.0
EARLY_S = 0.002
TOKEN = ConsistencyToken.of("epoch", [1])
PAUSE_S = 2 * FIRST_PAUSE_S
"""Between questions: each may make a probe, for which it must not wait."""

COUNTED_WITHIN_S = 0.25
"""How long counts for the reports may take."""

YESTERDAY = Period(NOON - days(1), NOON)
ITEMS = (
    segment("a", "Ann likes Goa.", entities=("Ann", "Goa"), entity="Ann"),
    segment("b", "Goa is warm.", entities=("Goa",), entity="Goa"),
    fact("f", "Ann", "likes", "Goa", evidence=("a",)),
)


class Hung:
    """Answers no call of any port."""

    def __getattr__(self, _: str) -> Any:
        return self._call

    async def _call(self, *_: object, **__: object) -> Any:
        await asyncio.Event().wait()


class HungStore(InMemoryStore):
    """Reads no rows; what it knows of a tenant it answers from memory."""

    async def load(self, *_: object) -> dict[ItemId, Item]:
        await asyncio.Event().wait()
        return {}


class HungNames(FixedNames):
    """Reads no names in time."""

    async def meant(self, *asked: Any) -> dict[str, str]:
        await asyncio.sleep(asked[-1].remaining())
        raise TimeoutError


class LaggingGraph(FixedConsistency):
    async def graph_has_seen(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        await asyncio.sleep(deadline.remaining())
        return False


class HungConsistency(LaggingGraph):
    """Counts as long as it may, and in vain."""

    async def dead_letter_counts(self, *_: object) -> Mapping[Projection, int]:
        await asyncio.sleep(COUNTED_WITHIN_S)
        return {}

    async def pending_counts(self, *_: object) -> Mapping[Projection, int]:
        await asyncio.sleep(COUNTED_WITHIN_S)
        return {}


HUNG = ["postgres", "graph", "index", "sharded index", "embedder", "reranker"]
EMBEDDED = [each for each in ITEMS if isinstance(each, Segment)]


def space(hung: str) -> VectorSpace:
    """An index of all segments, or one in shards; each embeds here, or by a remote embedder."""
    engine = InMemoryIndex()
    engine.apply([segment_row(each, unit(1), context=unit(1)) for each in EMBEDDED], [])
    index: Any = Hung() if hung.endswith("index") else EngineIndex(engine)
    embedders = {"embedder": Hung, "embedder after one question": EmbedderOfOne}
    embedder: Any = embedders.get(hung, FakeEmbedder)()
    search = EmbeddedSearch(embedder, index)
    whole = None if hung in ("graph", "sharded index") else index
    return VectorSpace(embedder, index, search, whole)


async def over_ports(hung: str) -> RetrievalSteps:
    """The steps over the real legs and ports in memory, of which one hangs."""
    is_postgres = hung == "postgres"
    store = HungStore() if is_postgres else InMemoryStore()
    await store.write(batch_of(*ITEMS))
    words: Any = Hung() if is_postgres else InMemoryWords(store)
    timeline: Any = Hung() if is_postgres else InMemoryTimeline(store)
    graph: Any = Hung() if hung == "graph" else InMemoryGraph()
    access: Any = Hung() if is_postgres else RecordingAccess()
    consistency = {"postgres": HungConsistency(), "graph": LaggingGraph()}.get(
        hung, FixedConsistency()
    )
    all_legs: Sequence[Leg] = (
        legs.LexicalLeg(words),
        legs.DenseLeg(access),
        legs.ContextLeg(),
        legs.FactsLeg(),
        legs.GraphLeg(graph, consistency),
        legs.RelatedLeg(graph, consistency),
        legs.RepliesLeg(),
        legs.TemporalLeg(timeline),
        legs.ImportantLeg(timeline),
        legs.HoldingLeg(Holding(store, timeline)),
    )
    reranker: Any = Hung() if hung == "reranker" else FixedReranker({"": 1.0})
    return steps(
        store,
        {leg.name: leg for leg in all_legs},
        consistency=consistency,
        access=access,
        dates=FixedDates(YESTERDAY),
        names=HungNames() if is_postgres else FixedNames(),
        reranker=reranker,
        breakers=all_breakers(clock=asyncio.get_running_loop().time),
        space=space(hung),
    )


async def ten_questions(hung: str, profile: str, token: ConsistencyToken | None) -> list[Outcome]:
    """What comes of ten questions, one after the other."""
    loop = asyncio.get_running_loop()
    answering, outcomes = await over_ports(hung), []
    asked = query("What does Ann like?", token=token)
    for _ in range(ASKED):
        started, answer = loop.time(), None
        with contextlib.suppress(AllLegsFailedError, StoreUnavailableError, BudgetExhaustedError):
            deadline = Deadline.after(BUDGET_S, loop.time)
            answer = (await answering.run(asked, PROFILES[profile], deadline)).retrieval
        outcomes.append(Outcome(loop.time() - started, answer))
        await asyncio.sleep(PAUSE_S)
    return outcomes


@pytest.mark.parametrize("token", [None, TOKEN], ids=["", "token"])
@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("hung", HUNG)
def test_hung_dependency_costs_three_queries_of_any_profile(
    hung: str, profile: str, token: ConsistencyToken | None
) -> None:
    outcomes = run_in_virtual_time(ten_questions(hung, profile, token))

    assert all(each.seconds <= BUDGET_S + ROUNDING_S for each in outcomes)
    assert [each.seconds for each in outcomes[FAILURES:]] == [0.0] * (ASKED - FAILURES)
    if hung in ("graph", "reranker"):
        assert all(each.answer is not None and each.answer.hits for each in outcomes)


class EarlyLoop(VirtualTimeLoop):
    """Its timers go off before they are due, as those of uvloop do, which counts milliseconds."""

    def call_at(
        self,
        when: float,
        callback: Callable[[*Given], object],
        *args: *Given,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(when - EARLY_S, callback, *args, context=context)


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("hung", HUNG)
def test_hang_behind_early_timers_costs_three_queries(hung: str, profile: str) -> None:
    with asyncio.Runner(loop_factory=EarlyLoop) as runner:
        outcomes = runner.run(ten_questions(hung, profile, None))

    assert [each.seconds for each in outcomes[FAILURES:]] == [0.0] * (ASKED - FAILURES)


class EmbedderOfOne(FakeEmbedder):
    """Embeds one text, and answers no call for another."""

    def __init__(self) -> None:
        super().__init__()
        self._embedded: set[str] = set()

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        if self._embedded:
            await asyncio.Event().wait()
        self._embedded.add(text)
        return await super().embed_query(text, deadline)


async def kept_question_after_hangs() -> Mapping[str, LegState]:
    """How the legs end that look up a question whose vector is kept, after others that hung."""
    loop, answering = asyncio.get_running_loop(), await over_ports("embedder after one question")
    texts = [
        "What does Ann like?",
        *(f"Does {name} like Goa?" for name in ("Bo", "Cy", "Di", "Ed")),
    ]
    for text in [*texts, texts[0]]:
        deadline = Deadline.after(BUDGET_S, loop.time)
        traced = await answering.run(query(text), PROFILES["default"], deadline)
    return {report.leg: report.state for report in traced.retrieval.reports}


def test_question_with_a_kept_vector_needs_no_embedder() -> None:
    ended = run_in_virtual_time(kept_question_after_hangs())

    assert {ended[leg] for leg in ("dense", "context", "facts")} == {LegState.OK}
