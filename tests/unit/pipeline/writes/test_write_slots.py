"""Whose write runs next, and what is refused."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from serving.domain.errors import OverloadedError
from serving.domain.items.records import TenantName
from serving.pipeline.writes.write_slots import WriteSlots

FLOODING = TenantName("flooding")
QUIET = TenantName("quiet")
THIRD = TenantName("third")


class Writers:
    """Writes that run until they are told to end."""

    def __init__(self, *, at_once: int = 3, most_waiting: int = 8) -> None:
        self.slots = WriteSlots(at_once, most_waiting)
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, tenant: TenantName, *, patient: bool = False) -> None:
        """Lets a write ask for its turn."""
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._write(name, tenant, patient))
        await _settled()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await _settled()

    def refused(self, name: str) -> OverloadedError:
        """The error of a write that was refused at once."""
        assert self.tasks[name].done()
        error = self.tasks[name].exception()
        assert isinstance(error, OverloadedError)
        return error

    async def _write(self, name: str, tenant: TenantName, patient: bool) -> None:
        async with self.slots.slot(tenant, patient=patient):
            self.running.append(name)
            await self._ends[name].wait()
            self.running.remove(name)


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_tenant_leaves_a_slot_for_others() -> None:
    writers = Writers()
    for name in ("a1", "a2", "a3"):
        await writers.begin(name, FLOODING)
    await writers.begin("b1", QUIET)

    assert writers.running == ["a1", "a2", "b1"]


async def test_tenants_that_wait_have_their_turn_one_after_the_other() -> None:
    writers = Writers(at_once=2)
    for name, tenant in (("a1", FLOODING), ("a2", FLOODING), ("a3", FLOODING), ("b1", QUIET)):
        await writers.begin(name, tenant)
    await writers.begin("b2", QUIET)
    await writers.begin("c1", THIRD)
    assert writers.running == ["a1", "b1"]

    await writers.end("a1")
    assert writers.running == ["b1", "a2"]
    await writers.end("a2")

    assert writers.running == ["b1", "c1"], "the flooding tenant had its turn"


async def test_when_all_have_ended_none_is_counted() -> None:
    writers = Writers()
    for name in ("a1", "a2", "a3", "a4"):
        await writers.begin(name, FLOODING)
    for name in ("a1", "a2", "a3", "a4"):
        await writers.end(name)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(writers.slots.slot(FLOODING))

    await asyncio.gather(*writers.tasks.values())


async def test_half_of_those_that_wait_may_be_of_one_tenant_and_more_are_refused() -> None:
    writers = Writers(at_once=2, most_waiting=4)
    for number in range(3):
        await writers.begin(f"a{number}", FLOODING)
    await writers.begin("a3", FLOODING)

    await writers.begin("b1", QUIET)

    assert writers.refused("a3").retry_after_s > 0
    assert "b1" in writers.running
    await writers.begin("a4", FLOODING, patient=True)
    assert not writers.tasks["a4"].done(), "a batch of a stream waits"
    for task in writers.tasks.values():
        task.cancel()


async def test_more_than_may_wait_of_all_tenants_are_refused() -> None:
    writers = Writers(at_once=2, most_waiting=2)
    for number in range(4):
        await writers.begin(f"{number}", TenantName(f"tenant {number}"))

    await writers.begin("b1", QUIET)

    assert writers.refused("b1").retry_after_s > 0
    for task in writers.tasks.values():
        task.cancel()


async def test_a_write_that_is_cancelled_while_it_waits_takes_no_slot() -> None:
    writers = Writers(at_once=2)
    for name in ("a1", "a2", "a3"):
        await writers.begin(name, FLOODING)

    writers._ends["a1"].set()
    writers.tasks["a2"].cancel()
    await _settled()

    assert writers.running == ["a3"]
    assert writers.tasks["a1"].done()
    assert writers.tasks["a1"].exception() is None


async def test_a_write_that_is_cancelled_as_its_turn_comes_passes_it_on() -> None:
    slots = WriteSlots(at_once=2)

    async def write() -> None:
        async with slots.slot(FLOODING):
            pass

    async with slots.slot(FLOODING):
        second, third = (asyncio.create_task(write()) for _ in range(2))
        await _settled()
    # It has been given its turn, and has not gone on yet.
    second.cancel()
    await _settled()

    assert second.cancelled()
    assert third.done()
