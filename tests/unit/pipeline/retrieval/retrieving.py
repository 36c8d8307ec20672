"""A retriever over what a test gives it, and short ways to read its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from serving.domain.breaker import Breaker, all_breakers
from serving.domain.budget import Deadline
from serving.domain.items.records import Item, ItemId, Segment, TenantName
from serving.domain.questions.query import Query
from serving.domain.ranking.profile import LegSpec, Profile
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.retrieval.admission import Admission
from serving.pipeline.retrieval.leg_runner import LegRunner, LegState
from serving.pipeline.retrieval.legs.leg import Leg
from serving.pipeline.retrieval.retrieve import Retriever
from serving.pipeline.retrieval.steps import Retrieval, RetrievalSteps
from serving.ports.memory_store import Batch
from serving.ports.reranking import Reranker
from serving.ports.resident_view import ResidentView
from serving.ports.words import NameResolver
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import FixedConsistency, FixedDates, FixedIndex, RecordingAccess
from tests.fakes.store import InMemoryStore
from tests.support.builders import TENANT, query

TWO_LEGS = Profile(name="two", legs=(LegSpec(name="lexical"), LegSpec(name="dense")))


class ReadStore(InMemoryStore):
    """Notes which rows each call reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[Sequence[ItemId]] = []

    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        self.reads.append(items)
        return await super().load(tenant, items, deadline)


async def store_of(*items: Item) -> InMemoryStore:
    store = InMemoryStore()
    await store.write(Batch(TENANT, items))
    return store


def some_space() -> VectorSpace:
    return VectorSpace.of(FakeEmbedder(), FixedIndex())


def space_of(*segments: Segment) -> VectorSpace:
    """An index at hand, of segments in one place."""
    engine = InMemoryIndex()
    engine.apply([segment_row(each, unit(1)) for each in segments], [])
    return VectorSpace.here(FakeEmbedder(), EngineIndex(engine))


def steps(
    store: InMemoryStore,
    legs: Mapping[str, Leg],
    *,
    consistency: FixedConsistency | None = None,
    access: RecordingAccess | None = None,
    dates: FixedDates | None = None,
    names: NameResolver | None = None,
    reranker: Reranker | None = None,
    breakers: Mapping[str, Breaker] | None = None,
    space: VectorSpace | None = None,
    view: ResidentView | None = None,
) -> RetrievalSteps:
    return RetrievalSteps(
        legs=LegRunner(legs, consistency or FixedConsistency()),
        space=space or some_space(),
        store=store,
        access=access or RecordingAccess(),
        read_times=(dates or FixedDates()).times,
        names=names,
        reranker=reranker,
        breakers=all_breakers() if breakers is None else breakers,
        view=view,
    )


def retriever(
    store: InMemoryStore,
    legs: Mapping[str, Leg],
    *,
    access: RecordingAccess | None = None,
    admission: Admission | None = None,
    **parts: Any,
) -> Retriever:
    access = access or RecordingAccess()
    return Retriever(steps(store, legs, access=access, **parts), access, admission)


async def answered(
    stored: InMemoryStore | Sequence[Item],
    legs: Mapping[str, Leg],
    profile: Profile,
    asked: Query | None = None,
    *,
    deadline: Deadline | None = None,
    **parts: Any,
) -> Retrieval:
    """What these legs find in a store, or in a new one of these items."""
    store = stored if isinstance(stored, InMemoryStore) else await store_of(*stored)
    answering = retriever(store, legs, **parts)
    return await answering.retrieve(asked or query("?"), profile, deadline or soon())


def hit_ids(answer: Retrieval) -> list[str]:
    return [hit.item.id for hit in answer.hits]


def states(answer: Retrieval) -> dict[str, LegState]:
    return {report.leg: report.state for report in answer.reports}


def soon() -> Deadline:
    return Deadline.after(30)
