"""A retriever over what a test gives it, and short ways to read its answers."""

from __future__ import annotations

from collections.abc import Mapping

from serving.domain.budget import Deadline
from serving.domain.records import Item
from serving.pipeline.asking import Legs, LegState
from serving.pipeline.legs import Leg
from serving.pipeline.retrieve import Retrieval, Retriever
from serving.pipeline.spaces import VectorSpace, VectorSpaces
from serving.ports import DateReader, NameResolver, Reranker
from tests.builders import TENANT
from tests.fake_meaning import FakeEmbedder
from tests.fake_store import InMemoryStore
from tests.fakes import FixedConsistency, FixedDates, FixedIndex, RecordingAccess


async def store_of(*items: Item) -> InMemoryStore:
    store = InMemoryStore()
    await store.write(TENANT, items)
    return store


def some_spaces() -> VectorSpaces:
    return VectorSpaces(VectorSpace(FakeEmbedder(), FixedIndex()))


def retriever(
    store: InMemoryStore,
    legs: Mapping[str, Leg],
    *,
    consistency: FixedConsistency | None = None,
    access: RecordingAccess | None = None,
    dates: DateReader | None = None,
    names: NameResolver | None = None,
    reranker: Reranker | None = None,
    spaces: VectorSpaces | None = None,
) -> Retriever:
    return Retriever(
        legs=Legs(legs, consistency or FixedConsistency()),
        spaces=spaces or some_spaces(),
        store=store,
        access=access or RecordingAccess(),
        dates=dates or FixedDates(),
        names=names,
        reranker=reranker,
    )


def hit_ids(answer: Retrieval) -> list[str]:
    return [hit.item.id for hit in answer.hits]


def states(answer: Retrieval) -> dict[str, LegState]:
    return {report.leg: report.state for report in answer.reports}


def soon() -> Deadline:
    return Deadline.after(5)
