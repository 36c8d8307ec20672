"""Which writes run at once, and which are refused."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.errors import OverloadedError, RateLimitedError
from serving.domain.items.records import TenantName
from serving.domain.token_buckets import TokenBuckets
from serving.pipeline.writes.write_slots import WriteSlots

FLOODING = TenantName("flooding")
QUIET = TenantName("quiet")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from("aaaabcdef")),
        st.tuples(st.just("stream"), st.sampled_from("ab")),
        st.tuples(st.sampled_from(["end", "cancel"]), st.integers(0, 30)),
    ),
    max_size=60,
)
"""Writes of tenants, and the places of those that end or are cancelled among the ones that live."""


class Writers:
    """Writes that run until the test ends them."""

    def __init__(self, *, max_concurrent: int = 3, max_writes: int = 32) -> None:
        self.slots = WriteSlots(max_concurrent, max_writes)
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, tenant: TenantName, *, patient: bool = False) -> None:
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._write(name, tenant, patient))
        await _settled()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await _settled()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await _settled()

    def cancel_all(self) -> None:
        for task in self.tasks.values():
            task.cancel()

    def refused(self, name: str) -> OverloadedError:
        """The error of a write that was refused at once."""
        assert self.tasks[name].done()
        error = self.tasks[name].exception()
        assert isinstance(error, OverloadedError)
        return error

    async def _write(self, name: str, tenant: TenantName, patient: bool) -> None:
        async with self.slots.slot(tenant, patient=patient):
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


async def _settled() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_flooding_tenant_leaves_a_slot_free() -> None:
    writers = Writers()
    for number in range(9):
        await writers.begin(f"a{number}", FLOODING)
    await writers.begin("b0", QUIET)

    assert writers.running == ["a0", "a1", "b0"]
    await writers.end("a1")
    assert writers.running == ["a0", "b0", "a2"]
    writers.cancel_all()


async def test_flooding_tenant_leaves_places_to_wait() -> None:
    writers = Writers(max_writes=8)
    for number in range(7):
        await writers.begin(f"a{number}", FLOODING)
    await writers.begin("b0", QUIET)

    assert writers.refused("a6").retry_after_s > 0
    assert not any(writers.tasks[f"a{number}"].done() for number in range(6))
    assert "b0" in writers.running
    writers.cancel_all()


async def test_full_queue_refuses_every_tenant() -> None:
    writers = Writers(max_writes=4)
    for number in range(4):
        await writers.begin(f"{number}", TenantName(f"tenant {number}"))

    await writers.begin("b0", QUIET)

    assert writers.refused("b0").retry_after_s > 0
    writers.cancel_all()


async def test_batches_of_streams_take_no_place() -> None:
    writers = Writers(max_writes=4)
    for number in range(9):
        await writers.begin(f"a{number}", FLOODING, patient=True)
    await writers.begin("b0", QUIET)

    assert not any(task.done() for task in writers.tasks.values())
    assert "b0" in writers.running
    writers.cancel_all()


async def test_stream_waits_for_its_token() -> None:
    slots = WriteSlots(rates=TokenBuckets(1))
    async with slots.slot(FLOODING):
        pass
    with pytest.raises(RateLimitedError):
        async with slots.slot(FLOODING):
            pass

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), slots.slot(FLOODING, patient=True):
            raise AssertionError("it did not wait")
    async with slots.slot(QUIET, patient=True):
        pass


@given(steps=STEPS)
async def test_any_writes_all_run_and_leave_nothing(steps: list[tuple[str, str | int]]) -> None:
    writers = Writers(max_concurrent=2, max_writes=6)
    for number, (kind, which) in enumerate(steps):
        if isinstance(which, str):
            name = f"{kind} {number}"
            await writers.begin(name, TenantName(which), patient=kind == "stream")
            if writers.tasks[name].done():
                writers.refused(name)
                assert kind == "begin"
        elif alive := [name for name, task in writers.tasks.items() if not task.done()]:
            name = alive[which % len(alive)]
            await (writers.cancel(name) if kind == "cancel" else writers.end(name))
        assert len(writers.running) <= 2
    for name in writers.tasks:
        await writers.end(name)

    assert all(task.done() for task in writers.tasks.values())
    assert not writers.slots._writes
