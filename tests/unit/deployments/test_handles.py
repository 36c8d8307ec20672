"""What the ingress asks of the deployments that there are."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from serving.deployments.handles import RemoteIndex, SpaceHandles, remote_space, unwrapped
from serving.deployments.index import IndexCalls
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemKind, fact_id, segment_id
from serving.domain.questions.query import Filter
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.embedding import VectorLike
from serving.ports.vector_index import IndexAnswer, WantedNeighbours, WholeIndex
from tests.fakes.meaning import EngineIndex, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import FixedIndex
from tests.support.builders import ids, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import soon

WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 3)


class Method:
    """A method of a deployment, as a handle has it: what it is given comes as a copy."""

    def __init__(self, answer: Callable[..., Awaitable[Any]]) -> None:
        self._answer = answer

    def remote(self, *arguments: object) -> Awaitable[Any]:
        return self._answer(*pickle.loads(pickle.dumps(arguments)))


class Deployed:
    """A handle: its searches find what it was named for, or it cannot be reached."""

    def __init__(self, name: str, *, lost: bool = False) -> None:
        async def search(*asked: object) -> IndexAnswer:
            self._require_there()
            return IndexAnswer([Candidate(segment_id(name), 0.5)], epoch=1)

        async def embed(*asked: object) -> Any:
            self._require_there()
            return unit(1)

        self._lost = lost
        self.search = self.search_text = Method(search)
        self.embed_query = Method(embed)

    def _require_there(self) -> None:
        if self._lost:
            raise DependencyError("index", "its replica cannot be reached")


def handles(*, together: bool, lost: bool) -> SpaceHandles:
    """Two shards, the second of which may be lost; and an embedder, with the first or apart."""
    first, second = Deployed("first"), Deployed("second", lost=lost)
    shards: Any = [first, second]
    embedder: Any = first if together else Deployed("embedder", lost=lost)
    return SpaceHandles(embedder, shards, together)


@pytest.mark.parametrize("together", [False, True])
async def test_all_shards_are_searched_by_text(together: bool) -> None:
    search = remote_space(handles(together=together, lost=False)).text_search
    assert search is not None

    answer = await search.search("?", WANTED, soon())

    assert [each.item.id for each in answer.candidates] == ["first", "second"]
    assert answer.unsearched == ""


@pytest.mark.parametrize("together", [False, True])
async def test_a_lost_shard_is_reported_as_unsearched(together: bool) -> None:
    space = remote_space(handles(together=together, lost=True))
    assert space.index is not None
    assert space.text_search is not None

    by_vector = await space.index.search(unit(1), WANTED, soon())

    assert by_vector.unsearched.startswith("1 of 2 shards answered")
    if together:
        by_text = await space.text_search.search("?", WANTED, soon())
        assert by_text.unsearched.startswith("1 of 2 shards answered")


async def test_a_call_that_ray_cancels_is_a_lost_replica_and_one_that_we_cancel_is_not() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def waits() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DependencyError, match="was lost during the call"):
        await unwrapped(cancelled(), "index")
    ours = asyncio.create_task(unwrapped(waits(), "index"))
    await asyncio.sleep(0)
    ours.cancel()

    with pytest.raises(asyncio.CancelledError):
        await ours


class NotedIndex(FixedIndex):
    """Notes what is wanted of it."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[WantedNeighbours] = []

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        self.wanted.append(wanted)
        return await super().search(vector, wanted, deadline)


class DeployedIndex(IndexCalls):
    """What a replica is asked, over an index that the test gives it."""

    def __init__(self, index: WholeIndex) -> None:
        self._index = index


async def test_what_is_wanted_comes_whole_to_the_index_of_another_deployment() -> None:
    index = NotedIndex()
    handle: Any = SimpleNamespace(search=Method(DeployedIndex(index).search))
    wanted = WantedNeighbours(
        ItemKind.FACT,
        scope(filter_=Filter(kinds=("note",))),
        depth=7,
        only={fact_id("f")},
        token=ConsistencyToken.of("1", [7]),
    )

    await RemoteIndex(handle).search(unit(1), wanted, soon())

    assert index.wanted == [wanted]


async def test_what_is_related_is_asked_of_the_index_in_one_call() -> None:
    engine = InMemoryIndex()
    engine.apply([segment_row(segment(name, speaker="Mara"), unit(1)) for name in "ab"], [])
    handle: Any = SimpleNamespace(related=Method(DeployedIndex(EngineIndex(engine)).related))

    answer = await RemoteIndex(handle).related(query("?"), ids("a"), 7, soon())

    assert [each.item for each in answer.candidates] == ids("b")


@pytest.mark.parametrize(("shards", "whole"), [(1, True), (2, False)])
def test_only_an_index_of_all_rows_knows_what_is_related(shards: int, whole: bool) -> None:
    nobody: Any = SimpleNamespace()
    space = remote_space(SpaceHandles(nobody, [nobody] * shards))

    related: object = space.related
    assert related is (space.index if whole else None)
