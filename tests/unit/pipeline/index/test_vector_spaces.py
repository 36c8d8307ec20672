from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.index.vector_spaces import OpenSpace, VectorSpaces
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import FixedIndex
from tests.support.builders import query


@dataclass
class Opened:
    """A space that notes whether it is open."""

    space: VectorSpace = field(default_factory=lambda: VectorSpace.of(FakeEmbedder(), FixedIndex()))
    times: int = 0
    is_open: bool = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[VectorSpace]:
        self.times += 1
        self.is_open = True
        try:
            yield self.space
        finally:
            self.is_open = False


def succession(current: FixedIndex, open_previous: OpenSpace | None) -> VectorSpaces:
    return VectorSpaces(VectorSpace.of(FakeEmbedder(), current), open_previous, release_after_s=0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def test_the_previous_space_answers_until_the_current_one_does() -> None:
    current, previous = FixedIndex(ready=False, incomplete=True), Opened()
    spaces = succession(current, previous.open)
    handing_over = asyncio.create_task(spaces.hand_over())
    await until(lambda: spaces.previous is not None)

    asked_before, held_before = spaces.for_query(query("?")), spaces.all()
    current.ready = True
    await handing_over

    assert asked_before is previous.space
    assert held_before == [spaces.current, previous.space]
    assert spaces.for_query(query("?")) is spaces.current
    assert spaces.all() == [spaces.current]
    assert not previous.is_open


async def test_given_vector_is_searched_in_the_current_space() -> None:
    previous = Opened()
    spaces = succession(FixedIndex(ready=False, incomplete=True), previous.open)
    handing_over = asyncio.create_task(spaces.hand_over())
    await until(lambda: spaces.previous is not None)

    asked = spaces.for_query(query("", vector=(1.0, 0.0)))
    handing_over.cancel()

    assert asked is spaces.current


async def test_previous_space_does_not_answer_before_filled() -> None:
    current = FixedIndex(ready=False, incomplete=True)
    previous = Opened(VectorSpace.of(FakeEmbedder(), FixedIndex(ready=False)))
    spaces = succession(current, previous.open)
    handing_over = asyncio.create_task(spaces.hand_over())
    await until(lambda: previous.is_open)

    asked = spaces.for_query(query("?"))
    handing_over.cancel()

    assert asked is spaces.current


async def test_unneeded_previous_space_is_not_opened() -> None:
    previous = Opened()

    await succession(FixedIndex(ready=True), previous.open).hand_over()

    assert previous.times == 0


async def test_unloadable_previous_model_is_logged_and_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def gone() -> AsyncIterator[VectorSpace]:
        raise OSError("no such folder")
        yield

    spaces = succession(FixedIndex(ready=False, incomplete=True), gone)

    await spaces.hand_over()

    assert spaces.for_query(query("?")) is spaces.current
    assert "previous model" in caplog.text
