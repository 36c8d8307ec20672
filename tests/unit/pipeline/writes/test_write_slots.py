"""Whose write runs next, and what is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.errors import OverloadedError, RateLimitedError
from serving.domain.items.records import TenantName
from serving.domain.token_buckets import TokenBuckets
from serving.pipeline.writes.write_slots import WriteSlots

FLOODING = TenantName("flooding")
QUIET = TenantName("quiet")
THIRD = TenantName("third")

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
    """Writes that run until they are told to end."""

    def __init__(
        self,
        *,
        at_once: int = 3,
        most_waiting: int = 8,
        weights: Mapping[TenantName, float] = MappingProxyType({}),
    ) -> None:
        self.slots = WriteSlots(at_once, most_waiting, weights)
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, tenant: TenantName, *, patient: bool = False) -> None:
        """Lets a write ask for its turn."""
        self.start(name, tenant, patient=patient)
        await _settled()

    def start(self, name: str, tenant: TenantName, *, patient: bool = False) -> None:
        """Lets a write ask for its turn as soon as others run."""
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._write(name, tenant, patient))

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await _settled()

    def waiting(self) -> list[str]:
        """The writes that have neither begun nor ended."""
        return [
            name
            for name, task in self.tasks.items()
            if not task.done() and name not in self.running
        ]

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


async def test_a_stream_waits_for_its_token_where_others_are_refused() -> None:
    slots = WriteSlots(rates=TokenBuckets(100, {FLOODING: 0.01}))
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


async def test_a_tenant_has_its_turn_as_often_as_its_weight_says() -> None:
    writers = Writers(at_once=5, most_waiting=20, weights={FLOODING: 3})
    for number in range(4):
        await writers.begin(f"c{number}", THIRD)
    await writers.begin("a0", FLOODING)
    for number in range(1, 9):
        await writers.begin(f"b{number}", QUIET)
        await writers.begin(f"a{number}", FLOODING)

    for number in range(4):
        await writers.end(f"c{number}")
    for name in ("a1", "a2", "a3", "b1"):
        await writers.end(name)

    assert writers.running == ["a0", "a4", "a5", "a6", "b2"]
    writers.cancel_all()


async def test_a_tenant_has_as_many_places_to_wait_as_its_weight_says() -> None:
    writers = Writers(at_once=2, most_waiting=8, weights={FLOODING: 3})
    for number in range(9):
        await writers.begin(f"a{number}", FLOODING)
    for number in range(9):
        await writers.begin(f"b{number}", QUIET)

    assert writers.running == ["a0", "b0"]
    assert [name[0] for name in writers.waiting()] == ["a"] * 6 + ["b"] * 2
    writers.cancel_all()


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


async def test_all_that_wait_may_be_of_one_tenant_and_more_are_refused() -> None:
    writers = Writers(at_once=2, most_waiting=4)
    for number in range(5):
        await writers.begin(f"a{number}", FLOODING)
    await writers.begin("a5", FLOODING)

    assert writers.refused("a5").retry_after_s > 0
    assert not any(writers.tasks[f"a{number}"].done() for number in range(5))
    await writers.begin("a6", FLOODING, patient=True)
    assert not writers.tasks["a6"].done(), "a batch of a stream waits"
    writers.cancel_all()


async def test_the_last_write_of_the_tenant_with_the_most_gives_way_to_another_tenant() -> None:
    writers = Writers(at_once=2, most_waiting=4)
    for number in range(5):
        await writers.begin(f"a{number}", FLOODING)
    for name in ("b1", "b2", "b3", "b4"):
        await writers.begin(name, QUIET)

    assert writers.running == ["a0", "b1"]
    assert writers.refused("a4").retry_after_s > writers.refused("b4").retry_after_s > 0
    writers.refused("a3")
    assert not writers.tasks["b3"].done(), "two of each wait"
    writers.cancel_all()


async def test_the_batches_of_streams_take_no_place_from_other_writes() -> None:
    writers = Writers(at_once=2, most_waiting=2)
    for number in range(5):
        await writers.begin(f"a{number}", FLOODING, patient=True)
    for name in ("b1", "b2"):
        await writers.begin(name, QUIET)

    assert writers.running == ["a0", "b1"]
    assert not writers.tasks["b2"].done()
    writers.cancel_all()


@given(steps=STEPS, weights=st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.25, 3])))
async def test_a_write_is_refused_only_for_one_of_a_tenant_with_fewer(
    steps: list[tuple[str, str | int]], weights: dict[str, float]
) -> None:
    most_waiting = 5
    by_tenant = {TenantName(tenant): weight for tenant, weight in weights.items()}
    writers = Writers(at_once=2, most_waiting=most_waiting, weights=by_tenant)
    of: dict[str, str] = {}
    for number, (kind, which) in enumerate(steps):
        waiting = writers.waiting()
        counted = Counter(of[name] for name in waiting if not name.startswith("stream"))
        if isinstance(which, str):
            name = f"{kind} {number}"
            of[name] = which
            await writers.begin(name, TenantName(which), patient=kind == "stream")
            refused = [each for each in [*waiting, name] if writers.tasks[each].done()]
            if refused:
                [loser] = refused
                writers.refused(loser)
                assert loser.startswith("begin")
                assert counted.total() == most_waiting, "there was a place"
                counted[which] += 1
                beyond = {
                    tenant: (count - 1) / weights.get(tenant, 1)
                    for tenant, count in counted.items()
                }
                assert beyond[of[loser]] == max(beyond.values())
                if loser != name:
                    assert beyond[which] < beyond[of[loser]], "nobody won by that"
            assert sum(not name.startswith("stream") for name in writers.waiting()) <= most_waiting
        elif alive := [name for name, task in writers.tasks.items() if not task.done()]:
            name = alive[which % len(alive)]
            if kind == "cancel":
                writers.tasks[name].cancel()
                await _settled()
            elif name in writers.running:
                await writers.end(name)
    for _ in steps:
        for name in list(writers.running):
            await writers.end(name)

    assert all(task.done() for task in writers.tasks.values()), "a write was forgotten"


async def test_a_write_that_gives_way_as_it_is_cancelled_takes_no_slot() -> None:
    writers = Writers(at_once=2, most_waiting=2)
    for name in ("a1", "a2", "a3"):
        await writers.begin(name, FLOODING)
    await writers.begin("b1", QUIET)
    writers.start("b2", QUIET)
    await asyncio.sleep(0)
    # It has been refused, and has not gone on yet.
    writers.tasks["a3"].cancel()
    await _settled()

    assert writers.tasks["a3"].cancelled()
    assert writers.running == ["a1", "b1"]
    writers.cancel_all()


async def test_more_than_may_wait_of_all_tenants_are_refused() -> None:
    writers = Writers(at_once=2, most_waiting=2)
    for number in range(4):
        await writers.begin(f"{number}", TenantName(f"tenant {number}"))

    await writers.begin("b1", QUIET)

    assert writers.refused("b1").retry_after_s > 0
    writers.cancel_all()


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
