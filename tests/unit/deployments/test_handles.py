"""Calls of ports in other deployments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from serving.composition.index import SpaceParts
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
from tests.fakes.meaning import FakeEmbedder, unit
from tests.fakes.pipeline import FixedIndex
from tests.support.builders import scope
from tests.support.waiting import begin, cancel
from tests.unit.pipeline.retrieval.retrieving import soon

WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 3)
A_VECTOR = unit(1)


def remote_index(handle: Any) -> WholeIndex:
    return Remote[WholeIndex](Calls(handle), "index").port


def searched_by(search: Callable[..., Any]) -> WholeIndex:
    """An index in another deployment whose searches do this."""
    return remote_index(FakeHandle(index=SimpleNamespace(search=search)))


async def search(
    index: Any, deadline: Deadline | None = None, question: VectorLike | str = A_VECTOR
) -> IndexAnswer:
    answer: IndexAnswer = await index.search(question, WANTED, deadline or soon())
    return answer


async def search_text(index: Any) -> IndexAnswer:
    return await search(index, question="?")


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
async def test_all_shards_are_searched_or_reported_unsearched(together: bool) -> None:
    whole = remote_space(handles(together=together, lost=False), 1)
    broken = remote_space(handles(together=together, lost=True), 1)

    answer = await search_text(whole.text_search)
    assert [each.item.id for each in answer.candidates] == ["first", "second"]
    assert answer.unsearched == ""
    answers = [await search(broken.index)]
    if together:
        answers.append(await search_text(broken.text_search))
    for answer in answers:
        assert answer.unsearched.startswith("1 of 2 shards answered")


@pytest.mark.parametrize(("shards", "whole"), [(1, True), (2, False)])
def test_only_an_unsharded_index_is_a_whole_one(shards: int, whole: bool) -> None:
    handle: Any = FakeHandle()

    space = remote_space(SpaceHandles(handle, [handle] * shards), 1)

    whole_index: object = space.whole_index
    assert whole_index is (space.index if whole else None)


# ------------------------------------------------------------ arguments, answers and errors


async def test_a_search_reaches_a_remote_index_whole() -> None:
    asked: list[WantedNeighbours] = []

    async def noted(vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline) -> None:
        asked.append(wanted)

    wanted = WantedNeighbours(
        ItemKind.FACT,
        scope(filter_=Filter(kinds=("note",))),
        depth=7,
        only={fact_id("f")},
        token=ConsistencyToken.of("1", [7]),
    )

    await searched_by(noted).search(unit(1), wanted, soon())

    assert asked == [wanted]


async def test_a_deadline_crosses_as_the_seconds_left() -> None:
    deadlines: list[Deadline] = []

    async def noted(vector: VectorLike, wanted: WantedNeighbours, deadline: Deadline) -> None:
        deadlines.append(deadline)

    at_forty = Deadline(at=100.0, clock=lambda: 40.0)

    await search(searched_by(noted), at_forty)

    assert deadlines[0].at != at_forty.at
    assert 0 < deadlines[0].remaining() <= 60


@pytest.mark.parametrize(
    "error", [NotReadyError("index", "re-embedding 40 %"), TooSlowError(2.0, 1.0)]
)
async def test_an_error_crosses_as_its_class_and_text(error: Exception) -> None:
    async def failing(*_: object) -> IndexAnswer:
        raise error

    with pytest.raises(type(error)) as raised:
        await search(searched_by(failing))
    assert str(raised.value) == str(error)


# ------------------------------------------------------------ calls that are made at once


class CountingHandle(FakeHandle):
    requests = 0

    async def remote(self, *arguments: Any, **named: Any) -> object:
        self.requests += 1
        return await super().remote(*arguments, **named)


def text_and_vectors(handle: Any) -> SpaceParts:
    """The space of one replica that searches by vector and by text."""
    return remote_space(SpaceHandles(handle, [handle], searches_text=True), 1)


async def test_calls_made_at_once_are_one_request() -> None:
    ports: dict[str, Any] = {"index": Shard("nearest"), "text search": Shard("found")}
    handle = CountingHandle(**ports)
    space = text_and_vectors(handle)

    answers = await asyncio.gather(search(space.index), search_text(space.text_search))
    await search_text(space.text_search)

    assert handle.requests == 2
    found = [[each.item.id for each in answer.candidates] for answer in answers]
    assert found == [["nearest"], ["found"]]


async def test_an_error_fails_only_its_own_call() -> None:
    ports: dict[str, Any] = {"index": Shard("", lost=True), "text search": Shard("found")}
    space = text_and_vectors(FakeHandle(**ports))

    lost, found = await asyncio.gather(
        search(space.index), search_text(space.text_search), return_exceptions=True
    )

    assert isinstance(lost, DependencyError)
    assert isinstance(found, IndexAnswer)


async def test_an_unexpected_error_is_logged_by_the_replica(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def failing(*_: object) -> IndexAnswer:
        raise KeyError("slot")

    with pytest.raises(KeyError, match="slot"):
        await search(searched_by(failing))
    (logged,) = caplog.records
    assert logged.exc_info is not None
    assert logged.__dict__["method"] == "search"


async def test_a_late_call_does_not_end_others() -> None:
    answer = asyncio.Event()

    async def waiting(*_: object) -> IndexAnswer:
        await answer.wait()
        return IndexAnswer([], epoch=1)

    index = searched_by(waiting)
    past = Deadline(at=0.0, clock=lambda: 1.0)

    late, other = (asyncio.ensure_future(search(index, each)) for each in (past, soon()))
    with pytest.raises(TimeoutError):
        await late
    answer.set()

    assert (await other).epoch == 1


async def test_a_request_is_cancelled_when_nobody_waits() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hanging(*_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    index = remote_index(calling(hanging))
    first, second = (asyncio.ensure_future(search(index)) for _ in range(2))
    await begun.wait()
    await cancel(first)
    assert not ended.is_set()
    second.cancel()
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
        await search(remote_index(calling(cancelled_by_ray)))


async def test_a_call_cancelled_by_its_caller_is_cancelled() -> None:
    call = await begin(search(remote_index(calling(until_cancelled))))
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
