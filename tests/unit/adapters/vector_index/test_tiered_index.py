"""The tiered index: searches, maintenance, rebuilds and failures."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.vector_index import ExactIndex, IndexRule, TieredIndex, arrays, rebuild
from serving.adapters.vector_index.arrays import Place
from serving.adapters.vector_index.lists import faiss_lists
from serving.adapters.vector_index.lists.faiss_lists import FaissLibrary, FaissLists, SharedLock
from serving.adapters.vector_index.lists.inverted_lists import OutOfMemoryError
from serving.adapters.vector_index.rebuild import RebuildProgress
from serving.adapters.vector_index.rows.columns import VECTORS_AT_ONCE, Columns, ItemNumbers
from serving.adapters.vector_index.rows.partition import FIRST_CAPACITY
from serving.adapters.vector_index.rule import (
    MAX_CANDIDATES,
    candidates_for,
    n_probes,
    training_rows,
)
from serving.domain.items.records import ItemKind, TenantName, segment_id
from serving.domain.questions.query import Filter
from serving.ports.index_engine import IndexRow, Neighbours
from serving.ports.vector_index import IndexTier, WantedNeighbours
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE, WatchedLibrary, WatchedLists
from tests.fakes.meaning import FAKE_MODEL, segment_row, unit
from tests.support.builders import OTHER, TENANT, scope, segment
from tests.support.stepped_clock import SteppedClock

DIMENSION = FAKE_MODEL.dimension


class Tiered:
    """A `TieredIndex` of `count` rows, with its parts."""

    def __init__(
        self,
        count: int = 0,
        rule: IndexRule = LISTS_AT_ONCE,
        *,
        max_probes: int | None = None,
        free: int = 10**9,
    ) -> None:
        self.library = WatchedLibrary(max_probes=max_probes)
        self.clock = SteppedClock()
        self.free_bytes = free
        self.engine = TieredIndex(
            DIMENSION, self.library, rule, clock=self.clock, memory=lambda: self.free_bytes
        )
        self.put(range(count))

    @classmethod
    def filled(cls, count: int, rule: IndexRule = LISTS_AT_ONCE) -> Self:
        """With rows in lists, if they are enough for them."""
        tiered = cls(count, rule)
        tiered.engine.maintain()
        return tiered

    @property
    def lists(self) -> WatchedLists:
        return self.library.made[-1]

    def put(self, numbers: Iterable[int], kind: str = "turn", tenant: TenantName = TENANT) -> None:
        self.engine.apply([row(number, kind, tenant) for number in numbers], [])

    def remove(self, numbers: Iterable[int]) -> None:
        self.engine.apply([], [(TENANT, segment_id(name(number))) for number in numbers])

    def find(
        self,
        number: int,
        depth: int = 5,
        filter_: Filter | None = None,
        tenant: TenantName = TENANT,
    ) -> Neighbours:
        in_scope = scope(filter_=filter_ or Filter(), tenant=tenant)
        wanted = WantedNeighbours(ItemKind.SEGMENT, in_scope, depth)
        return self.engine.search(unit(number), wanted)

    def names(self, number: int, depth: int = 5, filter_: Filter | None = None) -> list[str]:
        return [each.item.id for each in self.find(number, depth, filter_).candidates]

    @property
    def tier(self) -> IndexTier:
        return next(t for t in self.engine.tiers(TENANT) if t.kind is ItemKind.SEGMENT)


def name(number: int) -> str:
    return f"s{number:04}"


def row(number: int, kind: str = "turn", tenant: TenantName = TENANT) -> IndexRow:
    return segment_row(segment(name(number), kind=kind), unit(number), tenant=tenant)


def directed(number: int, sign: int, spread: float, kind: str = "turn") -> IndexRow:
    vector = sign * unit(1) + spread * unit(int(1000 * spread) + 2)
    vector = np.asarray(vector / np.linalg.norm(vector), np.float32)
    return segment_row(segment(name(number), kind=kind), vector)


# ---------------------------------------------------------------- what a search does


def test_sixteen_more_candidates_than_wanted_are_scored_again() -> None:
    tiered = Tiered.filled(200)

    tiered.find(1, 5)
    tiered.find(1, 100)

    assert [k for k, _, _ in tiered.lists.searches] == [21, 200]


def test_an_unfiltered_search_uses_no_mask() -> None:
    tiered = Tiered.filled(40)
    tiered.lists.searches.clear()

    tiered.find(1)
    tiered.remove([7])
    tiered.find(1)

    assert [masked for _, _, masked in tiered.lists.searches] == [False, True]


def test_a_large_depth_is_scanned() -> None:
    tiered, exact = Tiered(), ExactIndex(DIMENSION)
    rows = [row(number) for number in range(600)]
    tiered.engine.apply(rows, [])
    exact.apply(rows, [])
    tiered.engine.maintain()
    searches = tiered.library.search_count

    found = tiered.find(1, 300)

    true = exact.search(unit(1), WantedNeighbours(ItemKind.SEGMENT, scope(), 300))
    assert found.candidates == true.candidates
    assert tiered.library.search_count == searches


def test_too_few_candidates_lead_to_a_scan() -> None:
    tiered = Tiered(max_probes=1)
    near = [directed(n, 1, n / 1000) for n in range(400)]
    far = [directed(n, -1, n / 1000, "note") for n in range(1000, 1050)]
    tiered.engine.apply([*near, *far], [])
    tiered.engine.maintain()
    tiered.lists.searches.clear()

    found = tiered.names(1, 30, Filter(kinds=("note",)))

    assert len(found) == 30
    assert all(each >= name(1000) for each in found)
    assert len(tiered.lists.searches) == 1


def test_tail_rows_do_not_replace_rows_in_lists() -> None:
    tiered = Tiered(rule=replace(LISTS_AT_ONCE, min_tail=1000), max_probes=1)
    turns = [directed(n, 1, n / 1000) for n in range(400)]
    notes = [directed(n, -1, 5 + n / 100, "note") for n in range(1000, 1050)]
    tiered.engine.apply([*turns, *notes], [])
    tiered.engine.maintain()
    tiered.engine.apply([directed(n, -1, 0.01, "note") for n in range(2000, 2040)], [])

    found = tiered.names(1, 30, Filter(kinds=("note",)))

    assert all(name(1000) <= each < name(2000) for each in found)


def test_results_outside_the_mask_are_dropped() -> None:
    tiered = Tiered(40)
    tiered.put(range(40, 60), kind="note")
    tiered.engine.maintain()
    tiered.library.ignores_masks = True
    tiered.remove([50])

    assert tiered.names(1, 10, Filter(kinds=("note",)))
    assert all(each >= name(40) for each in tiered.names(1, 10, Filter(kinds=("note",))))
    assert name(50) not in tiered.names(50, 10)


def test_rows_newer_than_the_view_displace_none() -> None:
    tiered = Tiered()
    tiered.put(range(100, 140))
    tiered.engine.maintain()
    before = tiered.names(1, 10)

    def nearer_rows_come() -> None:
        tiered.library.on_search = lambda: None
        rows = [segment_row(segment(name(n)), unit(1)) for n in range(30)]
        tiered.engine.apply(rows, [])
        tiered.engine.maintain()
        assert len(tiered.lists.slots) == 70

    tiered.library.on_search = nearer_rows_come

    assert tiered.names(1, 10) == before
    assert tiered.names(1, 30) == [name(n) for n in range(30)]


def test_tenants_have_separate_lists() -> None:
    tiered = Tiered(40)
    tiered.put(range(40, 80), tenant=OTHER)
    tiered.engine.maintain()

    theirs = tiered.find(1, 40, tenant=OTHER)

    assert [len(lists.slots) for lists in tiered.library.made] == [40, 40]
    assert {each.item.id for each in theirs.candidates} == {name(n) for n in range(40, 80)}


# ---------------------------------------------------------------- extending and rebuilding


def test_a_long_tail_extends_the_lists() -> None:
    tiered = Tiered.filled(100, replace(LISTS_AT_ONCE, min_tail=10))
    [lists] = tiered.library.made
    tiered.put(range(100, 100 + lists.n_lists - 1))
    tiered.engine.maintain()
    before = len(lists.slots)
    tiered.put([500])
    tiered.engine.maintain()

    assert (before, len(lists.slots)) == (100, 100 + lists.n_lists)
    assert len(tiered.library.made) == 1
    assert tiered.names(500, 1) == [name(500)]


@pytest.mark.parametrize("during", ["on_train", "on_extend"])
@pytest.mark.parametrize("end", [110, 190])
def test_writes_during_a_rebuild_are_kept(during: str, end: int) -> None:
    tiered = Tiered(100)

    def writes() -> None:
        setattr(tiered.library, during, lambda: None)
        tiered.put(range(100, end))
        tiered.remove([*range(10), 105])
        tiered.put([5])
        tiered.engine.apply([segment_row(segment(name(50)), unit(999))], [])

    setattr(tiered.library, during, writes)
    tiered.engine.maintain()

    left = {name(n) for n in [5, *range(10, 105), *range(106, end)]}
    assert set(tiered.names(1, 200)) == left
    assert tiered.names(999, 1) == [name(50)]
    assert tiered.find(50).candidates[0].score < 0.99
    assert tiered.tier.approximate


def test_swap_raises_the_generation() -> None:
    tiered = Tiered(40)
    exact = tiered.find(1).generation
    tiered.engine.maintain()
    in_lists = tiered.find(1).generation
    tiered.remove(range(20))
    tiered.engine.maintain()

    assert (exact, in_lists, tiered.find(1).generation) == (0, 1, 2)
    assert tiered.engine.generation == 2
    assert tiered.tier.dead == 0


def test_rows_in_lists_keep_their_slots_until_a_rebuild() -> None:
    tiered = Tiered.filled(400)

    tiered.remove(range(200))

    assert tiered.tier.approximate
    assert (tiered.tier.rows, tiered.tier.dead) == (200, 200)
    assert set(tiered.names(1, 300)) == {name(n) for n in range(200, 400)}


def test_few_remaining_rows_leave_the_lists() -> None:
    tiered = Tiered.filled(100, replace(LISTS_AT_ONCE, max_scanned_rows=30))
    tiered.remove(range(85))
    tiered.engine.maintain()

    assert (tiered.tier.approximate, tiered.tier.dead) == (False, 0)
    assert set(tiered.names(1, 50)) == {name(n) for n in range(85, 100)}


def test_old_lists_are_freed_with_their_last_search() -> None:
    tiered = Tiered.filled(100)
    old = weakref.ref(tiered.library.made.pop())
    during: list[object] = []

    def swap() -> None:
        tiered.library.on_search = lambda: None
        tiered.remove(range(40))
        tiered.engine.maintain()
        gc.collect()
        during.append(old())

    tiered.library.on_search = swap
    tiered.find(1)
    assert during.pop() is not None
    gc.collect()

    assert old() is None


def test_a_tenant_erased_during_a_rebuild_stays_erased() -> None:
    tiered = Tiered(40)
    tiered.library.on_train = lambda: tiered.remove(range(40))

    tiered.engine.maintain()
    tiered.engine.maintain()

    assert tiered.engine.vector_count == 0
    assert tiered.engine.tiers(TENANT) == []
    assert tiered.find(1) == Neighbours([], generation=0)


def test_closing_stops_a_rebuild_and_keeps_the_rows() -> None:
    tiered = Tiered(40)
    tiered.library.on_train = tiered.engine.close

    tiered.engine.maintain()

    assert (tiered.tier.approximate, tiered.engine.generation) == (False, 0)
    assert tiered.tier.failure == ""
    assert len(tiered.names(1, 40)) == 40


def test_a_rebuild_reports_its_progress() -> None:
    tiered = Tiered(40)
    seen: list[str] = []
    tiered.library.on_train = lambda: seen.append(tiered.tier.rebuilding)
    tiered.library.on_extend = lambda: seen.append(tiered.tier.rebuilding)

    tiered.engine.maintain()

    assert seen == ["training 0 %", "filling 0 %"]
    assert tiered.tier.rebuilding == ""
    assert str(RebuildProgress("filling", 0.5)) == "filling 50 %"


class FakeDevice:
    """A clock that goes on only while rows are added, and while the rebuild sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.held: list[tuple[float, float]] = []

    def add_rows(self) -> None:
        since, self.now_s = self.now_s, self.now_s + 0.02
        self.held.append((since, self.now_s))

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def waits_ms(self) -> list[float]:
        arrivals = np.arange(0.0, self.now_s, 0.001)
        ends = [next((end for since, end in self.held if since <= at < end), at) for at in arrivals]
        return [1e3 * wait for wait in (np.array(ends) - arrivals).tolist()]


@pytest.mark.parametrize(("holds", "most_ms"), [(True, 0.0), (False, 20.0)])
def test_rebuild_rests_after_steps_that_hold_searches(
    monkeypatch: pytest.MonkeyPatch, holds: bool, most_ms: float
) -> None:
    device = FakeDevice()
    clock = SimpleNamespace(sleep=device.sleep, perf_counter=lambda: device.now_s)
    monkeypatch.setattr(rebuild, "time", clock)
    monkeypatch.setattr(rebuild, "FILLED_AT_ONCE", 8)
    tiered = Tiered()
    tiered.library.holds_searches = holds
    tiered.library.on_extend = device.add_rows
    tiered.put(range(80))

    tiered.engine.maintain()

    assert len(device.held) == 10
    assert np.percentile(device.waits_ms(), 99) == pytest.approx(most_ms, abs=1)


# ---------------------------------------------------------------- memory


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (OutOfMemoryError("lists of 60 rows"), "no memory for lists of 60 rows"),
        (RuntimeError("what nobody thought of"), "RuntimeError"),
    ],
)
def test_failed_rebuild_keeps_the_old_lists_for_minutes(error: Exception, failure: str) -> None:
    tiered = Tiered.filled(40)
    tiered.put(range(40, 90))
    tiered.library.on_train = raising(error)
    tiered.engine.maintain()

    assert tiered.tier.failure == failure
    assert (tiered.engine.generation, tiered.tier.rows) == (1, 90)
    assert len(tiered.names(1, 90)) == 90
    tiered.library.on_train = lambda: None
    tiered.engine.maintain()
    assert tiered.engine.generation == 1
    tiered.clock.now += 600
    tiered.engine.maintain()
    assert (tiered.engine.generation, tiered.tier.failure) == (2, "")


def test_a_rebuild_without_free_memory_is_not_begun() -> None:
    tiered = Tiered(40, free=1000)
    tiered.engine.maintain()

    assert "40 rows in" in tiered.tier.failure
    assert not tiered.library.made
    tiered.free_bytes = 10**9
    tiered.clock.now += 600
    tiered.engine.maintain()
    assert tiered.tier.approximate


def test_a_device_lost_during_a_rebuild_is_raised() -> None:
    tiered = Tiered(40)
    tiered.library.on_train = raising(torch.AcceleratorError("CUDA error"))

    with pytest.raises(torch.AcceleratorError):
        tiered.engine.maintain()

    assert tiered.tier.rebuilding == ""


def test_full_lists_are_rebuilt() -> None:
    tiered = Tiered.filled(100)

    def fail() -> None:
        tiered.library.on_extend = lambda: None
        raise OutOfMemoryError("more rows")

    tiered.library.on_extend = fail
    tiered.put(range(100, 160))
    tiered.engine.maintain()

    assert len(tiered.library.made) == 2
    assert len(tiered.library.made[1].slots) == tiered.tier.rows == 160
    assert len(tiered.names(1, 160)) == 160


# ---------------------------------------------------------------- the rule of lists


RULE = IndexRule(max_scanned_rows=1000)


@pytest.mark.parametrize(
    ("dimension", "device", "rows"),
    [(384, "cpu", 104_166), (1024, "cpu", 39_062), (1024, "cuda:1", 2_929_687)],
)
def test_the_limit_of_a_scan_depends_on_bytes(dimension: int, device: str, rows: int) -> None:
    assert IndexRule.of(dimension, device).max_scanned_rows == rows


@pytest.mark.parametrize(
    ("rows", "n_lists"),
    [(5, 1), (500, 15), (1024, 32), (10_000, 312), (100_000, 1264), (1_000_000, 4000)],
)
def test_lists_grow_with_the_root_of_the_rows(rows: int, n_lists: int) -> None:
    assert RULE.n_lists(rows) == n_lists


@given(rows=st.integers(1, 10**8))
def test_lists_are_trained_on_64_to_256_rows(rows: int) -> None:
    n_lists = RULE.n_lists(rows)

    assert min(rows, 64 * n_lists) <= training_rows(n_lists, rows) <= min(rows, 256 * n_lists)


@pytest.mark.parametrize(
    ("tail", "n_lists", "full"),
    [(1023, 32, False), (1024, 32, True), (3999, 4000, False), (4000, 4000, True)],
)
def test_the_tail_is_full_at_the_number_of_lists(tail: int, n_lists: int, full: bool) -> None:
    assert RULE.is_tail_full(tail, n_lists) is full


@pytest.mark.parametrize(
    ("alive", "dead", "trained_rows", "reason"),
    [
        (1000, 900, None, None),
        (1001, 0, None, "grown"),
        (501, 0, 1200, None),
        (500, 0, 1200, "shrunk"),
        (1500, 375, 1200, None),
        (1500, 376, 1200, "tombstones"),
        (1500, 0, 1200, "full"),
        (2400, 0, 1200, None),
        (2401, 0, 1200, "doubled"),
    ],
)
def test_reasons_have_thresholds(
    alive: int, dead: int, trained_rows: int | None, reason: str | None
) -> None:
    assert RULE.rebuild_reason(alive, dead, trained_rows, full=reason == "full") == reason


@pytest.mark.parametrize(
    ("depth", "candidates"),
    [(1, 17), (16, 32), (20, 40), (128, 256), (240, 256), (241, None), (1000, None)],
)
def test_candidates_exceed_the_depth_by_16(depth: int, candidates: int | None) -> None:
    assert candidates_for(depth) == candidates
    assert candidates is None or depth + 16 <= candidates <= MAX_CANDIDATES


def test_a_selective_filter_reads_more_lists() -> None:
    probes = [n_probes(1_000_000, 4000, passing) for passing in (1.0, 0.5, 0.25, 0.01)]

    assert probes == [96, 192, 384, 4000]


def test_small_lists_are_read_in_a_larger_share() -> None:
    assert [n_probes(rows, 1264, 1.0) for rows in (250_000, 250_001)] == [192, 96]


# ---------------------------------------------------------------- columns


ROWS = 2 * VECTORS_AT_ONCE + 3
ROOM = ROWS + 5


@pytest.fixture(params=["cpu", "cpu:0"], ids=["numpy", "torch"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A device on which uninitialised memory is NaN."""
    monkeypatch.setattr(np, "empty", lambda shape, dtype: np.full(shape, np.nan, dtype))
    torch.set_deterministic_debug_mode("error")
    yield request.param
    torch.set_deterministic_debug_mode("default")


def test_vectors_copied_in_parts_stay_with_rows(device: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((ROWS, 2)).astype(np.float16)
    columns = Columns(ROOM, 2, Place(device))
    columns.append(
        [IndexRow(tenant=TenantName("t"), item=segment_id("book"), vectors=vectors)], ItemNumbers()
    )
    kept = np.flatnonzero(np.arange(ROWS) % 7)
    pauses: list[None] = []

    copied = columns.copied(kept, ROWS, ROOM, lambda: pauses.append(None))

    assert np.array_equal(np.asarray(copied.vectors)[: len(kept)], vectors[kept])
    assert np.isnan(np.asarray(copied.vectors)[len(kept) :]).all()
    assert np.isnan(np.asarray(columns.vectors)[ROWS:]).all()
    assert pauses


def test_small_partitions_next_to_a_device_stay_on_host() -> None:
    engine = ExactIndex(FAKE_MODEL.dimension, device="cpu:0", host_rows=FIRST_CAPACITY)
    plain = ExactIndex(FAKE_MODEL.dimension)
    rows = [segment_row(segment(f"s{n:03}"), unit(n)) for n in range(FIRST_CAPACITY + 1)]
    wanted = WantedNeighbours(ItemKind.SEGMENT, scope(), 20)

    def is_on_host() -> bool:
        partition = engine.partition(TENANT, ItemKind.SEGMENT)
        assert partition is not None
        found, expected = (each.search(unit(7), wanted).candidates for each in (engine, plain))
        assert [each.item for each in found] == [each.item for each in expected]
        return arrays.is_on_host(partition.view.vectors)

    changes: list[tuple[list[IndexRow], list[IndexRow]]]
    changes = [(rows[:-1], []), (rows[-1:], []), ([], rows[100:])]
    for added, gone in changes:
        for each in (engine, plain):
            each.apply(added, [(TENANT, row.item) for row in gone])
        assert is_on_host() == (len(added) != 1)


# ---------------------------------------------------------------- FAISS


SLOTS = 3 * np.arange(200) + 7
VECTORS = torch.nn.functional.normalize(
    torch.randn((200, 16), generator=torch.Generator().manual_seed(0))
).half()


def test_an_extension_waits_for_a_running_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search begins an extension, which must wait for the end of that search."""
    wanted_alone = threading.Event()

    class ObservedLock(SharedLock):
        @contextmanager
        def alone(self) -> Iterator[None]:
            wanted_alone.set()
            with super().alone():
                yield

    class SlowIndex:
        """An index whose searches last until an extension has asked for the lock."""

        def __init__(self, index: Any) -> None:
            self._index = index
            self.added_meanwhile = -1

        def __getattr__(self, name: str) -> Any:
            return getattr(self._index, name)

        def search(self, *arguments: Any, **options: Any) -> Any:
            before = self._index.ntotal
            wanted_alone.clear()
            extending.start()
            assert wanted_alone.wait(10)
            found = self._index.search(*arguments, **options)
            self.added_meanwhile = self._index.ntotal - before
            return found

    made = FaissLibrary().train(VECTORS, 8)
    index = SlowIndex(made._index)
    monkeypatch.setattr(faiss_lists, "SharedLock", ObservedLock)
    lists = FaissLists(index, 1)
    lists.extend(VECTORS[:100], torch.from_numpy(SLOTS[:100]))
    more = VECTORS[100:], torch.from_numpy(SLOTS[100:])
    extending = threading.Thread(target=lambda: lists.extend(*more))

    lists.search(VECTORS[:1].float(), 1, 8, None)
    extending.join()

    assert index.added_meanwhile == 0
    assert index.ntotal == len(VECTORS)
