"""What a hung dependency costs the questions of each profile, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Any, NamedTuple, TypeVarTuple

import pytest

from serving.config.profiles import ProfileBook
from serving.domain.breaker import FAILURES, FIRST_PAUSE_S, all_breakers
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import (
    AllLegsFailedError,
    BudgetExhaustedError,
    StoreUnavailableError,
)
from serving.domain.items.records import Item, ItemId, Segment, TenantName
from serving.domain.questions.period import Period
from serving.pipeline.index.vector_space import EmbeddedSearch, VectorSpace
from serving.pipeline.retrieval import legs
from serving.pipeline.retrieval.holding import Holding
from serving.pipeline.retrieval.leg_runner import LegRunner, LegState
from serving.pipeline.retrieval.legs.leg import Leg
from serving.pipeline.retrieval.steps import Retrieval, RetrievalSteps
from serving.ports.change_log import Projection
from serving.ports.embedding import Vector
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import (
    FixedConsistency,
    FixedDates,
    FixedNames,
    FixedReranker,
    RecordingAccess,
)
from tests.fakes.simulation.virtual_time import VirtualTimeLoop, run_in_virtual_time
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryTimeline
from tests.fakes.words import InMemoryWords
from tests.support.builders import NOON, batch_of, days, fact, query, segment

Given = TypeVarTuple("Given")

PROFILES = ProfileBook.load()
QUESTIONS = 10
BUDGET_S = 1.0
ROUNDING_S = 1e-9
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


class Outcome(NamedTuple):
    """How long a question took, and its answer, if it has one."""

    seconds: float
    answer: Retrieval | None


class Hung:
    """Answers no call of any port."""

    def __getattr__(self, _: str) -> Any:
        return self._call

    async def _call(self, *_: object, **__: object) -> Any:
        await asyncio.Event().wait()


class HungStore(InMemoryStore):
    """Reads no rows; what it knows of a tenant it answers from memory."""

    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        await asyncio.Event().wait()
        return {}


class HungAccess(RecordingAccess):
    """Reads no counts."""

    async def shown_counts(self, *_: object) -> Mapping[ItemId, int]:
        await asyncio.Event().wait()
        return {}

    async def recently_accessed(self, *_: object) -> list[ItemId]:
        await asyncio.Event().wait()
        return []


class HungNames(FixedNames):
    """Reads no names in time."""

    async def meant(
        self, tenant: TenantName, words: Sequence[str], deadline: Deadline
    ) -> dict[str, str]:
        await asyncio.sleep(deadline.remaining())
        raise TimeoutError


class LaggingGraph(FixedConsistency):
    async def graph_has_seen(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        await asyncio.sleep(deadline.remaining())
        return False


class HungConsistency(LaggingGraph):
    """Counts as long as it may, and in vain."""

    async def dead_letter_counts(self, token: ConsistencyToken) -> Mapping[Projection, int]:
        await asyncio.sleep(COUNTED_WITHIN_S)
        return {}

    async def pending_counts(
        self, tenant: TenantName, deadline: Deadline
    ) -> Mapping[Projection, int]:
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


async def steps(hung: str) -> RetrievalSteps:
    """The steps over the real legs and ports in memory, of which one hangs."""
    is_postgres = hung == "postgres"
    store = HungStore() if is_postgres else InMemoryStore()
    await store.write(batch_of(*ITEMS))
    words: Any = Hung() if is_postgres else InMemoryWords(store)
    timeline: Any = Hung() if is_postgres else InMemoryTimeline(store)
    graph: Any = Hung() if hung == "graph" else InMemoryGraph()
    access = HungAccess() if is_postgres else RecordingAccess()
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
    resolver = HungNames() if is_postgres else FixedNames()
    reranker: Any = Hung() if hung == "reranker" else FixedReranker({"": 1.0})
    return RetrievalSteps(
        legs=LegRunner({leg.name: leg for leg in all_legs}, consistency),
        space=space(hung),
        store=store,
        access=access,
        read_times=FixedDates(YESTERDAY).times,
        names=resolver,
        reranker=reranker,
        breakers=all_breakers(clock=asyncio.get_running_loop().time),
    )


async def ten_questions(hung: str, profile: str, token: ConsistencyToken | None) -> list[Outcome]:
    """What comes of ten questions, one after the other."""
    loop = asyncio.get_running_loop()
    answering, outcomes = await steps(hung), []
    asked = query("What does Ann like?", token=token)
    for _ in range(QUESTIONS):
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
    assert [each.seconds for each in outcomes[FAILURES:]] == [0.0] * (QUESTIONS - FAILURES)
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

    assert [each.seconds for each in outcomes[FAILURES:]] == [0.0] * (QUESTIONS - FAILURES)


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
    loop, answering = asyncio.get_running_loop(), await steps("embedder after one question")
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
