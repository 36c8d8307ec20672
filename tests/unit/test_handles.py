"""What the ingress asks of the deployments that there are, and of their twins."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from serving.deployments.handles import RemoteIndex, SpaceHandles, elsewhere
from serving.deployments.index import IndexCalls
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError
from serving.domain.query import Filter
from serving.domain.ranking import Candidate
from serving.domain.records import ItemKind, fact_id, segment_id
from serving.ports import IndexAnswer, VectorIndex, VectorLike, WantedNeighbours
from tests.builders import scope
from tests.fake_meaning import unit
from tests.fakes import FixedIndex
from tests.unit.pipeline.retrieving import soon

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


def handles(*, together: bool, lost: bool, twins: bool) -> SpaceHandles:
    """Two shards, the second of which may be lost; and an embedder, beside them or in the first."""
    first, second = Deployed("first"), Deployed("second", lost=lost)
    shards: Any = [first, second]
    its_twins: Any = [Deployed("first"), Deployed("second")] if twins else []
    embedder: Any = first if together else Deployed("embedder", lost=lost)
    embedder_twin: Any = Deployed("embedder") if twins else None
    return SpaceHandles(embedder, shards, shards if together else (), embedder_twin, its_twins)


@pytest.mark.parametrize(
    ("together", "lost", "twins"),
    [
        (False, False, ()),
        (False, True, ("embedder", "index")),
        (True, False, ()),
        (True, True, ("index",)),
    ],
)
async def test_each_shard_is_stood_in_for_by_itself_and_none_is_missing(
    together: bool, lost: bool, twins: tuple[str, ...]
) -> None:
    search = elsewhere(handles(together=together, lost=lost, twins=True)).semantic
    assert search is not None

    answer = await search.search("?", WANTED, soon())

    assert [each.item.id for each in answer.candidates] == ["first", "second"]
    assert (answer.unsearched, answer.twins) == ("", twins)


@pytest.mark.parametrize("together", [False, True])
async def test_without_twins_a_lost_shard_is_missing(together: bool) -> None:
    space = elsewhere(handles(together=together, lost=True, twins=False))
    assert space.index is not None

    answer = await space.index.search(unit(1), WANTED, soon())

    assert answer.unsearched.startswith("1 of 2 shards answered")
    assert (space.semantic is not None) == together


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

    def __init__(self, index: VectorIndex) -> None:
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
