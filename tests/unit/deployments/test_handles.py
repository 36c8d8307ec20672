"""Calls of ports in other deployments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from serving.deployments.handles import Calls, Remote, RemoteEmbedder, SpaceHandles, remote_space
from serving.domain.breaker import FAILURES, Breaker
from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.errors import DependencyError, NotReadyError, TooSlowError
from serving.domain.items.records import ItemKind, fact_id, segment_id
from serving.domain.questions.query import Filter
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.index.merging import status_of
from serving.ports.embedding import VectorLike
from serving.ports.vector_index import IndexAnswer, WantedNeighbours, WholeIndex
from tests.fakes.deployment import FakeHandle
from tests.fakes.meaning import EngineIndex, FakeEmbedder, InMemoryIndex, segment_row, unit
from tests.fakes.pipeline import FixedIndex
from tests.support.builders import ids, query, scope, segment
from tests.unit.pipeline.retrieval.retrieving import soon

WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 3)


def remote_index(handle: Any) -> WholeIndex:
    return Remote[WholeIndex](Calls(handle), "index").port


class Shard:
    """Finds one segment, or cannot be reached."""

    def __init__(self, name: str, *, lost: bool = False) -> None:
        self._name = name
        self._lost = lost

    async def search(self, *_: object) -> IndexAnswer:
        self._require_reachable()
        return IndexAnswer([Candidate(segment_id(self._name), 0.5)], epoch=1)

    async def embed_query(self, *_: object) -> VectorLike:
        self._require_reachable()
        return unit(1)

    def _require_reachable(self) -> None:
        if self._lost:
            raise DependencyError("index", "the replica cannot be reached")


def handles(*, together: bool, lost: bool) -> SpaceHandles:
    """Two shards, the second of which may be lost; and an embedder, with the first or apart."""
    shards: list[Any] = []
    for part in (Shard("first"), Shard("second", lost=lost)):
        ports: dict[str, Any] = {"index": part, "text search": part, "embedder": part}
        shards.append(FakeHandle(**ports))
    apart: Any = FakeHandle(embedder=Shard("embedder", lost=lost))
    return SpaceHandles(shards[0] if together else apart, shards, together)


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


@pytest.mark.parametrize(("shards", "whole"), [(1, True), (2, False)])
def test_only_an_unsharded_index_finds_related_segments(shards: int, whole: bool) -> None:
    handle: Any = FakeHandle()

    space = remote_space(SpaceHandles(handle, [handle] * shards))

    related: object = space.related
    assert related is (space.index if whole else None)


# ------------------------------------------------------------ arguments, answers and errors


class NotedIndex(FixedIndex):
    """Notes its searches."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[WantedNeighbours] = []
        self.deadlines: list[Deadline] = []

    async def search(
        self, vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        self.wanted.append(wanted)
        self.deadlines.append(deadline)
        return await super().search(vector, wanted, deadline)


async def test_a_search_reaches_a_remote_index_whole() -> None:
    index = NotedIndex()
    wanted = WantedNeighbours(
        ItemKind.FACT,
        scope(filter_=Filter(kinds=("note",))),
        depth=7,
        only={fact_id("f")},
        token=ConsistencyToken.of("1", [7]),
    )

    await remote_index(FakeHandle(index=index)).search(unit(1), wanted, soon())

    assert index.wanted == [wanted]


async def test_a_deadline_crosses_as_the_seconds_left() -> None:
    index = NotedIndex()
    at_forty = Deadline(at=100.0, clock=lambda: 40.0)

    await remote_index(FakeHandle(index=index)).search(unit(1), WANTED, at_forty)

    assert index.deadlines[0].at != at_forty.at
    assert 0 < index.deadlines[0].remaining() <= 60


async def test_related_segments_are_found_in_a_remote_index() -> None:
    engine = InMemoryIndex()
    engine.apply([segment_row(segment(name, speaker="Mara"), unit(1)) for name in "ab"], [])
    index = remote_index(FakeHandle(index=EngineIndex(engine)))

    answer = await index.related(query("?"), ids("a"), 7, soon())

    assert [each.item for each in answer.candidates] == ids("b")


@pytest.mark.parametrize(
    "error", [NotReadyError("index", "re-embedding 40 %"), TooSlowError(2.0, 1.0)]
)
async def test_an_error_crosses_as_its_class_and_text(error: Exception) -> None:
    async def search(*_: object) -> IndexAnswer:
        raise error

    index = remote_index(FakeHandle(index=SimpleNamespace(search=search)))

    with pytest.raises(type(error)) as raised:
        await index.search(unit(1), WANTED, soon())
    assert str(raised.value) == str(error)


# ------------------------------------------------------------ calls that are made at once


class CountingHandle(FakeHandle):
    """Counts requests."""

    requests = 0

    async def remote(self, *arguments: Any, **named: Any) -> object:
        self.requests += 1
        return await super().remote(*arguments, **named)


async def test_calls_made_at_once_are_one_request() -> None:
    ports: dict[str, Any] = {"index": FixedIndex(), "text search": Shard("found")}
    handle: Any = CountingHandle(**ports)
    space = remote_space(SpaceHandles(handle, [handle], searches_text=True))
    assert space.index is not None
    assert space.text_search is not None

    by_vector, by_text = await asyncio.gather(
        space.index.search(unit(1), WANTED, soon()), space.text_search.search("?", WANTED, soon())
    )
    await space.text_search.search("?", WANTED, soon())

    assert handle.requests == 2
    assert by_vector.candidates == (await FixedIndex().search(unit(1), WANTED, soon())).candidates
    assert [each.item.id for each in by_text.candidates] == ["found"]


async def test_an_error_fails_only_its_own_call() -> None:
    ports: dict[str, Any] = {"index": Shard("", lost=True), "text search": Shard("found")}
    handle: Any = FakeHandle(**ports)
    space = remote_space(SpaceHandles(handle, [handle], searches_text=True))
    assert space.index is not None
    assert space.text_search is not None

    lost, found = await asyncio.gather(
        space.index.search(unit(1), WANTED, soon()),
        space.text_search.search("?", WANTED, soon()),
        return_exceptions=True,
    )

    assert isinstance(lost, DependencyError)
    assert isinstance(found, IndexAnswer)


async def test_an_unexpected_error_is_logged_by_the_replica(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def search(*_: object) -> IndexAnswer:
        raise KeyError("slot")

    index = remote_index(FakeHandle(index=SimpleNamespace(search=search)))

    with pytest.raises(KeyError, match="slot"):
        await index.search(unit(1), WANTED, soon())
    (logged,) = caplog.records
    assert logged.exc_info is not None
    assert logged.__dict__["method"] == "search"


async def test_a_late_call_does_not_end_others() -> None:
    answer = asyncio.Event()

    async def search(*_: object) -> IndexAnswer:
        await answer.wait()
        return IndexAnswer([], epoch=1)

    index = remote_index(FakeHandle(index=SimpleNamespace(search=search)))
    past = Deadline(at=0.0, clock=lambda: 1.0)

    late, other = (
        asyncio.ensure_future(index.search(unit(1), WANTED, each)) for each in (past, soon())
    )
    with pytest.raises(TimeoutError):
        await late
    answer.set()

    assert (await other).epoch == 1


async def test_a_request_is_cancelled_when_nobody_waits() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def search(*_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    index = remote_index(calling(search))
    calls = [asyncio.ensure_future(index.search(unit(1), WANTED, soon())) for _ in range(2)]
    await begun.wait()
    calls[0].cancel()
    await asyncio.gather(calls[0], return_exceptions=True)
    assert not ended.is_set()
    calls[1].cancel()
    await ended.wait()


# ------------------------------------------------------------ replicas that are not there


async def until_cancelled(*_: object) -> None:
    await asyncio.Event().wait()


async def cancelled_by_ray(*_: object) -> None:
    raise asyncio.CancelledError


def calling(remote: Callable[..., Any]) -> Any:
    """A handle of a running deployment whose calls do this."""
    method = SimpleNamespace(remote=remote, running_replicas_populated=lambda: True)
    handle = SimpleNamespace(call=method)
    handle.options = lambda **_: handle
    return handle


async def test_a_call_cancelled_by_ray_is_a_lost_replica() -> None:
    with pytest.raises(DependencyError, match="was lost during the call"):
        await remote_index(calling(cancelled_by_ray)).search(unit(1), WANTED, soon())


async def test_a_call_cancelled_by_its_caller_is_cancelled() -> None:
    call = asyncio.ensure_future(
        remote_index(calling(until_cancelled)).search(unit(1), WANTED, soon())
    )
    await asyncio.sleep(0)
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_call_without_reply_ends_after_its_deadline() -> None:
    index = remote_index(calling(until_cancelled))

    with pytest.raises(TimeoutError):
        await index.caught_up(ConsistencyToken.of("1", [7]), Deadline.after(0))


async def test_starting_deployment_opens_no_breaker() -> None:
    handle = FakeHandle(started=False, index=FixedIndex())
    index, breaker = remote_index(handle), Breaker("index")

    for question in range(FAILURES):
        with pytest.raises(NotReadyError, match="starting"):
            await breaker.ask(question, soon(), partial(index.search, unit(1), WANTED))

    assert breaker.trouble == ""
    assert (await status_of(index)).reason == "starting"
    handle.started = True
    assert (await status_of(index)).ready


async def test_the_model_of_a_starting_embedder_is_awaited() -> None:
    handle: Any = FakeHandle(started=False, embedder=FakeEmbedder())
    embedder = RemoteEmbedder(handle).port

    assert await embedder.model() == await FakeEmbedder().model()
    with pytest.raises(NotReadyError, match="starting"):
        await embedder.embed_query("?", soon())
