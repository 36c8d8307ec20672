"""Writes under load: slots, backpressure, the backlog, and what statistics tell of it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.domain.breaker import FAILURES, Breaker
from serving.domain.budget import Deadline
from serving.domain.consistency import Snapshot
from serving.domain.errors import (
    DependencyError,
    OverloadedError,
    RateLimitedError,
    StoreUnavailableError,
)
from serving.domain.items.records import TenantName, segment_id
from serving.domain.token_buckets import TokenBuckets
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.writes import stats
from serving.pipeline.writes.backlog import Backlog
from serving.pipeline.writes.backpressure import MAX_PENDING, Backpressure
from serving.pipeline.writes.stats import UNKNOWN_COUNT, Observer, Overview
from serving.pipeline.writes.write_slots import WriteSlots
from serving.ports.change_log import Change, ChangeBatch, ChangeLog
from serving.ports.memory_store import TenantCounts
from tests.fakes.meaning import FakeEmbedder
from tests.fakes.pipeline import FixedIndex
from tests.support.builders import TENANT


def batch(xmax: int, changes: str, first_key: int = 0) -> ChangeBatch:
    """A batch of changes named by their tenant and a number, such as "a1 a2 b1"."""
    return ChangeBatch(
        [
            Change(first_key + place, TenantName(name[0]), segment_id(name), xmax - 1)
            for place, name in enumerate(changes.split())
        ],
        Snapshot(xmax),
        last=True,
    )


def taken(backlog: Backlog, limit: int) -> str:
    return " ".join(change.item.id for change in backlog.take(limit))


def test_tenants_have_their_turns_in_a_backlog() -> None:
    backlog = Backlog()
    backlog.add(batch(10, "a1 a2 a3 a4"))
    backlog.add(batch(20, "b1 a5 c1 b2", first_key=10))

    assert taken(backlog, 4) == "a1 b1 c1 a2"
    assert taken(backlog, 9) == "b2 a3 a4 a5"
    assert len(backlog) == 0


def test_position_moves_when_all_before_are_projected() -> None:
    backlog = Backlog()
    backlog.add(batch(10, "a1 a2"))
    backlog.add(batch(20, "b1", first_key=10))

    backlog.take(2)
    assert backlog.finish() is None
    backlog.take(1)
    assert backlog.finish() == Snapshot(20)


def test_batch_without_changes_moves_the_position() -> None:
    backlog = Backlog()
    backlog.add(batch(10, "a1"))
    backlog.add(batch(20, ""))

    assert backlog.read_up_to == Snapshot(20)
    assert backlog.finish() is None
    backlog.take(1)
    assert backlog.finish() == Snapshot(20)


def test_row_changed_twice_is_taken_once() -> None:
    backlog = Backlog()
    backlog.add(batch(10, "a1"))
    backlog.add(batch(20, "a1"))

    assert taken(backlog, 2) == "a1"
    assert backlog.finish() == Snapshot(20)


class CountedLog:
    """Answers with the next of the given states; the last holds."""

    def __init__(self, *states: bool | Exception) -> None:
        self._states = iter(states)
        self._last: bool | Exception = False
        self.reads = 0

    async def has_pending(self, count: int) -> bool:
        assert count == MAX_PENDING
        self.reads += 1
        self._last = next(self._states, self._last)
        if isinstance(self._last, Exception):
            raise self._last
        return self._last


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backlog is always counted, and no part waited for."""
    monkeypatch.setattr("serving.pipeline.writes.backpressure.READ_EVERY_S", 0.0)
    monkeypatch.setattr(stats, "PATIENCE_S", 0.01)


def backpressure(log: CountedLog) -> Backpressure:
    return Backpressure(cast(ChangeLog, log))


async def test_write_is_refused_while_the_backlog_is_full() -> None:
    guard = backpressure(CountedLog(False, True, False))

    await guard.admit(patient=False)
    with pytest.raises(OverloadedError, match="the backlog of the projections is full"):
        await guard.admit(patient=False)
    await guard.admit(patient=False)


async def test_patient_write_waits_until_the_backlog_is_shorter() -> None:
    log = CountedLog(True, True, True, False)

    async with asyncio.timeout(10):
        await backpressure(log).admit(patient=True)

    assert log.reads == 4


async def test_backlog_is_counted_once_in_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.pipeline.writes.backpressure.READ_EVERY_S", 3600)
    log = CountedLog(True)
    guard = backpressure(log)

    for _ in range(3):
        with pytest.raises(OverloadedError) as refused:
            await guard.admit(patient=False)

    assert log.reads == 1
    assert refused.value.retry_after_s == 3600


@pytest.mark.parametrize("full", [True, False])
async def test_lost_store_leaves_the_state_as_known(*, full: bool) -> None:
    guard = backpressure(CountedLog(full, StoreUnavailableError("lost")))

    for _ in range(2):
        with pytest.raises(OverloadedError) if full else nullcontext():
            await guard.admit(patient=False)


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


COUNTS = TenantCounts(3, 0, 1, 2, 3, "english", "UTC")


async def hangs(*_: object) -> Any:
    await asyncio.Event().wait()


def returns(value: object) -> Any:
    async def answer(*_: object) -> object:
        return value

    return answer


async def overview(observed: Observer) -> Overview:
    async with asyncio.timeout(10):
        return await observed.overview(TENANT)


def observer(**given: Any) -> Observer:
    """Of parts that are well unless others are given."""
    well = {"tenant_counts": returns(COUNTS), "dead_letters": returns([]), "status": returns([])}
    parts: Any = SimpleNamespace(**{**well, "count_entities": returns(7), **given})
    return Observer(
        about=parts,
        catalog=parts,
        log=parts,
        space=VectorSpace.of(
            given.get("embedder", FakeEmbedder()), given.get("index", FixedIndex())
        ),
        graph=parts,
        breakers=given.get("breakers", ()),
    )


async def test_lost_parts_are_named_and_the_others_reported() -> None:
    lost = SimpleNamespace(model=hangs, embed_query=hangs, embed_documents=hangs)
    index = SimpleNamespace(status=hangs)

    found = await overview(observer(embedder=lost, index=index, count_entities=hangs))
    well = await overview(observer())

    assert found.tenant == COUNTS
    assert (found.index.ready, found.entities) == (False, UNKNOWN_COUNT)
    assert set(found.degraded) == {
        "embedder: no answer in time",
        "graph: no answer in time",
        "index: no answer in time",
    }
    assert (well.entities, well.degraded) == (7, [])


async def test_slow_or_lost_database_is_named() -> None:
    async def lost(*_: object) -> Any:
        raise StoreUnavailableError("connection refused")

    found = await overview(observer(tenant_counts=hangs, status=lost))

    assert (found.tenant, found.projections, found.entities) == (None, [], 7)
    assert found.degraded == [
        "PostgreSQL cannot be reached (connection refused)",
        "counts: no answer in time",
    ]


async def test_late_counts_are_those_of_the_next_caller() -> None:
    counted, calls = asyncio.Event(), 0

    async def slow(*_: object) -> TenantCounts:
        nonlocal calls
        calls += 1
        await counted.wait()
        return COUNTS

    observed = observer(tenant_counts=slow)

    first = await observed.overview(TENANT)
    counted.set()
    second = await observed.overview(TENANT)
    third = await observed.overview(TENANT)

    assert (first.tenant, second.tenant, third.tenant) == (None, COUNTS, COUNTS)
    assert calls == 2, "the second has what the first began, and the third counts anew"


async def test_a_dependency_that_is_not_asked_is_named() -> None:
    asked, not_asked = Breaker("index"), Breaker("graph")

    async def refused(_: Deadline) -> None:
        raise DependencyError("graph", "refused")

    for question in range(FAILURES):
        with suppress(DependencyError):
            await not_asked.ask(question, Deadline.after(1), refused)

    found = await overview(observer(breakers=[asked, not_asked]))

    assert found.degraded == [f"graph: {not_asked.trouble}"]


async def test_the_vectors_of_a_lost_embedder_are_still_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embedder = FakeEmbedder()
    observed = observer(embedder=embedder)
    known = (await observed.overview(TENANT)).model

    monkeypatch.setattr(embedder, "model", hangs)

    assert known is not None
    assert (await observed.overview(TENANT)).model == known
