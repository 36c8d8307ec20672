"""The tiered index: searches, maintenance, rebuilds and failures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.lists.cuvs_lists import CuvsLibrary
from serving.adapters.vector_index.lists.errors import ListsDeviceLostError, OutOfMemoryError
from serving.adapters.vector_index.rebuild import RebuildProgress
from serving.adapters.vector_index.tuning.costs import MemoryPlan
from serving.adapters.vector_index.tuning.policy import IndexPolicy, calibration_target
from serving.domain.items.records import ItemKind, TenantName, segment_id
from serving.domain.questions.query import Filter
from serving.ports.index_engine import IndexRow, Neighbours
from serving.ports.vector_index import IndexTier, WantedNeighbours
from tests.fakes.lists.cuvs import ILLEGAL_ADDRESS, FakeCuvs
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE, WatchedLibrary
from tests.fakes.meaning import FAKE_MODEL, segment_row, unit
from tests.support.builders import TENANT, scope, segment

OTHER = TenantName("other")
DIMENSION = FAKE_MODEL.dimension


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Tiered:
    """A `TieredIndex` with its parts."""

    def __init__(
        self, policy: IndexPolicy = LISTS_AT_ONCE, *, probe_all: bool = False, free: int = 10**9
    ) -> None:
        self.library = WatchedLibrary(probe_all=probe_all)
        self.clock = Clock()
        self.free_bytes = free
        self.engine = TieredIndex(
            DIMENSION,
            self.library,
            policy,
            clock=self.clock,
            memory=lambda: self.free_bytes,
        )

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


# ---------------------------------------------------------------- what a search does


def test_rows_are_read_exactly_until_there_are_many() -> None:
    tiered = Tiered()
    tiered.put(range(4))
    tiered.engine.maintain()
    few = tiered.tier
    tiered.put([4])
    tiered.engine.maintain()

    assert (few.n_lists, tiered.tier.n_lists) == (0, 2)
    assert (few.tail, tiered.tier.tail) == (0, 0)
    assert tiered.names(3, 1) == [name(3)]


def test_at_least_sixteen_more_candidates_than_wanted_are_scored_again() -> None:
    tiered = Tiered()
    tiered.put(range(200))
    tiered.engine.maintain()
    lists = tiered.library.made[-1]

    tiered.find(1, 5)
    tiered.find(1, 100)

    assert [k for k, _, _ in lists.searches] == [21, 200]


def test_without_filter_or_tombstones_the_lists_are_asked_without_a_mask() -> None:
    tiered = Tiered()
    tiered.put(range(40))
    tiered.engine.maintain()
    lists = tiered.library.made[-1]
    lists.searches.clear()

    tiered.find(1)
    tiered.remove([7])
    tiered.find(1)

    assert [masked for _, _, masked in lists.searches] == [False, True]


def test_new_rows_are_found_and_removed_ones_are_gone_before_any_maintenance() -> None:
    tiered = Tiered()
    tiered.put(range(40))
    tiered.engine.maintain()

    tiered.put([77])
    tiered.remove([5])

    assert tiered.names(77, 1) == [name(77)]
    assert name(5) not in tiered.names(5, 40)
    assert (tiered.tier.rows, tiered.tier.tail) == (40, 1)


def test_an_answer_with_more_items_than_lists_can_give_is_exact() -> None:
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


def test_the_depth_is_filled_with_rows_that_lie_far_from_the_question() -> None:
    tiered = Tiered(replace(LISTS_AT_ONCE, recall_target=0.3))
    near = [
        segment_row(segment(name(n)), direction(1, spread=n / 1000), tenant=TENANT)
        for n in range(400)
    ]
    far = [
        segment_row(segment(name(n), kind="note"), direction(-1, spread=n / 1000))
        for n in range(1000, 1050)
    ]
    tiered.engine.apply([*near, *far], [])
    tiered.engine.maintain()
    lists = tiered.library.made[-1]
    lists.searches.clear()

    found = tiered.names(1, 30, Filter(kinds=("note",)))

    assert len(found) == 30
    assert all(each >= name(1000) for each in found)
    assert len(lists.searches) > 1


def test_poor_rows_of_the_tail_do_not_stand_in_for_better_ones_in_other_lists() -> None:
    tiered = Tiered(replace(LISTS_AT_ONCE, recall_target=0.3, min_tail=1000))
    turns = [segment_row(segment(name(n)), direction(1, n / 1000)) for n in range(400)]
    notes = [
        segment_row(segment(name(n), kind="note"), direction(-1, 5 + n / 100))
        for n in range(1000, 1050)
    ]
    tiered.engine.apply([*turns, *notes], [])
    tiered.engine.maintain()
    worse = [
        segment_row(segment(name(n), kind="note"), direction(-1, 0.01)) for n in range(2000, 2040)
    ]
    tiered.engine.apply(worse, [])

    found = tiered.names(1, 30, Filter(kinds=("note",)))

    assert tiered.tier.tail == 40
    assert all(name(1000) <= each < name(2000) for each in found)


def test_what_a_library_finds_against_the_mask_is_not_shown() -> None:
    tiered = Tiered()
    tiered.put(range(40))
    tiered.put(range(40, 60), kind="note")
    tiered.engine.maintain()
    tiered.library.ignores_masks = True
    tiered.remove([50])

    assert tiered.names(1, 10, Filter(kinds=("note",)))
    assert all(each >= name(40) for each in tiered.names(1, 10, Filter(kinds=("note",))))
    assert name(50) not in tiered.names(50, 10)


def direction(sign: int, spread: float) -> np.ndarray:
    vector = sign * unit(1) + spread * unit(int(1000 * spread) + 2)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def test_rows_that_came_after_the_view_do_not_crowd_out_those_it_has() -> None:
    tiered = Tiered(probe_all=True)
    tiered.put(range(100, 140))
    tiered.engine.maintain()
    before = tiered.names(1, 10)

    def nearer_rows_come() -> None:
        tiered.library.on_search = lambda: None
        rows = [segment_row(segment(name(n)), unit(1)) for n in range(30)]
        tiered.engine.apply(rows, [])
        tiered.engine.maintain()
        assert tiered.tier.tail == 0

    tiered.library.on_search = nearer_rows_come

    assert tiered.names(1, 10) == before
    assert tiered.names(1, 30) == [name(n) for n in range(30)]


def test_each_tenant_has_lists_of_its_own() -> None:
    tiered = Tiered()
    tiered.put(range(40))
    tiered.put(range(40, 80), tenant=OTHER)
    tiered.engine.maintain()

    theirs = tiered.find(1, 40, tenant=OTHER)

    assert [int(lists.list_sizes().sum()) for lists in tiered.library.made] == [40, 40]
    assert {each.item.id for each in theirs.candidates} == {name(n) for n in range(40, 80)}


# ---------------------------------------------------------------- extending and rebuilding


def test_the_tail_goes_into_the_lists_when_it_is_long() -> None:
    tiered = Tiered(replace(LISTS_AT_ONCE, min_tail=10))
    tiered.put(range(100))
    tiered.engine.maintain()
    n_lists = tiered.tier.n_lists
    tiered.put(range(100, 100 + n_lists - 1))
    tiered.engine.maintain()
    short = tiered.tier.tail
    tiered.put([500])
    tiered.engine.maintain()

    assert (short, tiered.tier.tail) == (n_lists - 1, 0)
    assert len(tiered.library.made) == 1
    assert tiered.names(500, 1) == [name(500)]


@pytest.mark.parametrize("during", ["on_train", "on_extend"])
@pytest.mark.parametrize("end", [110, 190])
def test_what_is_written_during_a_rebuild_is_there_after_it(during: str, end: int) -> None:
    tiered = Tiered()
    tiered.put(range(100))

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
    assert tiered.tier.n_lists > 0


def test_each_swap_raises_the_generation_that_answers_name() -> None:
    tiered = Tiered()
    tiered.put(range(40))
    exact = tiered.find(1).generation
    tiered.engine.maintain()
    in_lists = tiered.find(1).generation
    tiered.remove(range(20))
    tiered.engine.maintain()

    assert (exact, in_lists, tiered.find(1).generation) == (0, 1, 2)
    assert tiered.engine.generation == 2
    assert tiered.tier.dead_share == 0


def test_rows_in_lists_keep_their_slots_until_a_rebuild() -> None:
    tiered = Tiered()
    tiered.put(range(400))
    tiered.engine.maintain()

    tiered.remove(range(200))

    assert tiered.tier.n_lists > 0
    assert tiered.tier.dead_share == 0.5
    assert set(tiered.names(1, 300)) == {name(n) for n in range(200, 400)}


def test_few_rows_that_are_left_are_read_exactly_again() -> None:
    tiered = Tiered(replace(LISTS_AT_ONCE, exact_max_rows=30))
    tiered.put(range(100))
    tiered.engine.maintain()
    tiered.remove(range(85))
    tiered.engine.maintain()

    assert (tiered.tier.n_lists, tiered.tier.dead_share) == (0, 0)
    assert set(tiered.names(1, 50)) == {name(n) for n in range(85, 100)}


def test_old_lists_are_closed_when_no_search_holds_them() -> None:
    tiered = Tiered()
    tiered.put(range(100))
    tiered.engine.maintain()
    old = tiered.library.made[0]

    def swaps() -> None:
        tiered.library.on_search = lambda: None
        tiered.remove(range(40))
        tiered.engine.maintain()
        tiered.engine.maintain()
        assert len(tiered.library.made) == 2

    tiered.library.on_search = swaps
    tiered.find(1)
    held = not old.closed
    tiered.engine.maintain()

    assert held
    assert old.closed
    assert not tiered.library.made[1].closed


def test_a_tenant_that_was_erased_during_a_rebuild_does_not_come_back() -> None:
    tiered = Tiered()
    tiered.put(range(40))

    def erase() -> None:
        tiered.remove(range(40))

    tiered.library.on_train = erase
    tiered.engine.maintain()
    tiered.engine.maintain()

    assert tiered.engine.vector_count == 0
    assert tiered.engine.tiers(TENANT) == []
    assert tiered.find(1) == Neighbours([], generation=0)
    assert tiered.library.made[0].closed


def test_a_rebuild_ends_when_the_index_is_closed_and_what_there_was_answers() -> None:
    tiered = Tiered()
    tiered.put(range(40))
    tiered.library.on_train = tiered.engine.close

    tiered.engine.maintain()

    assert (tiered.tier.n_lists, tiered.engine.generation) == (0, 0)
    assert tiered.tier.failure == ""
    assert len(tiered.names(1, 40)) == 40
    assert tiered.library.made[0].closed


def test_how_far_a_rebuild_is_can_be_read_meanwhile() -> None:
    tiered = Tiered()
    tiered.put(range(40))
    seen: list[str] = []
    tiered.library.on_train = lambda: seen.append(tiered.tier.rebuilding)
    tiered.library.on_extend = lambda: seen.append(tiered.tier.rebuilding)

    tiered.engine.maintain()

    assert seen == ["training 0 %", "filling 0 %"]
    assert tiered.tier.rebuilding == ""
    assert str(RebuildProgress("filling", 0.5)) == "filling 50 %"


# ---------------------------------------------------------------- memory


def test_without_memory_for_new_lists_the_old_ones_go_on_and_it_is_said() -> None:
    tiered = Tiered()
    tiered.put(range(40))
    tiered.engine.maintain()

    def fail() -> None:
        raise OutOfMemoryError("lists of 60 rows")

    tiered.library.on_train = fail
    tiered.put(range(40, 90))
    tiered.engine.maintain()

    assert tiered.tier.failure == "no memory for lists of 60 rows"
    assert (tiered.engine.generation, tiered.tier.rows) == (1, 90)
    assert len(tiered.names(1, 90)) == 90
    tiered.library.on_train = lambda: None
    tiered.engine.maintain()
    assert tiered.engine.generation == 1
    tiered.clock.now_s += 600
    tiered.engine.maintain()
    assert tiered.engine.generation == 2
    assert tiered.tier.failure == ""


def test_a_rebuild_that_would_not_fit_is_not_begun() -> None:
    tiered = Tiered(free=1000)
    tiered.put(range(40))
    tiered.engine.maintain()

    assert "40 rows in" in tiered.tier.failure
    assert not tiered.library.made
    tiered.free_bytes = 10**9
    tiered.put(range(40, 50))
    tiered.engine.maintain()
    assert tiered.tier.n_lists > 0


def test_what_needs_room_is_what_is_kept_there() -> None:
    plan = MemoryPlan(rows=40, dimension=DIMENSION, n_lists=8)
    engine = TieredIndex(
        DIMENSION,
        WatchedLibrary(),
        LISTS_AT_ONCE,
        memory=lambda: plan.vector_bytes,
        needs=lambda its: its.vector_bytes,
    )
    engine.apply([row(number) for number in range(40)], [])
    engine.maintain()

    assert plan.vector_bytes < plan.total_bytes
    assert engine.generation == 1


@pytest.mark.parametrize(
    "error", [ListsDeviceLostError("cudaErrorIllegalAddress"), torch.AcceleratorError("CUDA error")]
)
def test_a_device_lost_during_a_rebuild_is_raised_by_maintain(
    error: Exception,
) -> None:
    tiered = Tiered()
    tiered.put(range(40))

    def fail() -> None:
        raise error

    tiered.library.on_train = fail
    with pytest.raises(type(error)):
        tiered.engine.maintain()

    assert tiered.tier.rebuilding == ""


def test_a_library_that_fails_in_any_way_is_not_asked_again_at_once() -> None:
    tiered = Tiered()
    tiered.put(range(40))
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise RuntimeError("what nobody thought of")

    tiered.library.on_train = fail
    tiered.engine.maintain()
    tiered.engine.maintain()

    assert len(tries) == 1
    assert tiered.tier.failure == "RuntimeError"
    assert len(tiered.names(1, 40)) == 40


def test_rows_that_do_not_fit_into_lists_stay_in_the_tail_until_lists_are_rebuilt() -> None:
    tiered = Tiered()
    tiered.put(range(100))
    tiered.engine.maintain()

    def fail() -> None:
        tiered.library.on_extend = lambda: None
        raise OutOfMemoryError("more rows")

    tiered.library.on_extend = fail
    tiered.put(range(100, 160))
    tiered.engine.maintain()

    assert len(tiered.library.made) == 2
    assert (tiered.tier.tail, tiered.tier.rows) == (0, 160)
    assert len(tiered.names(1, 160)) == 160


def test_a_device_that_is_lost_while_a_snapshot_is_read_is_no_damaged_snapshot(
    cuvs: CuvsLibrary, fake_cuvs: FakeCuvs, tmp_path: Path
) -> None:
    # "cpu:0" stands for a device of torch, to which the host would be "cpu".
    engine = TieredIndex(DIMENSION, cuvs, LISTS_AT_ONCE, device="cpu:0")
    engine.apply([row(number) for number in range(40)], [])
    engine.maintain()
    engine.save(tmp_path)
    fake_cuvs.fail("cuvsIvfFlatDeserialize", ILLEGAL_ADDRESS)

    with pytest.raises(ListsDeviceLostError):
        TieredIndex(DIMENSION, cuvs, LISTS_AT_ONCE, device="cpu:0").restore(tmp_path)


# ---------------------------------------------------------------- recall


def test_probes_are_as_few_as_reach_the_target_and_the_curve_tells_why() -> None:
    tiered = Tiered(replace(LISTS_AT_ONCE, recall_target=0.6, min_rows_per_list=16))
    tiered.put(range(2000))
    tiered.engine.maintain()

    assert tiered.library.made[0].masks == [2000 - 125]  # else what is held out finds itself
    curve = {point.n_probes: point for point in tiered.tier.curve}
    chosen = curve[tiered.tier.n_probes]
    assert 1 < tiered.tier.n_probes < tiered.tier.n_lists
    steps = sorted(curve)
    place = steps.index(tiered.tier.n_probes)
    assert chosen.recall >= calibration_target(0.6) > curve[steps[place - 1]].recall
    assert len(steps) == place + 2, "the curve goes one step beyond"
    assert 0 < chosen.share < 1
    assert (tiered.tier.recall, tiered.tier.audited) == (chosen.recall, False)


def test_recall_is_audited_with_what_was_asked_and_lists_are_rebuilt_when_it_sinks() -> None:
    tiered = Tiered(replace(LISTS_AT_ONCE, recall_target=0.6, min_rows_per_list=16))
    tiered.put(range(2000))
    tiered.engine.maintain()
    probes = tiered.tier.n_probes
    # Far from all centroids: its neighbours are spread over many lists.
    asked = -np.sum([unit(number) for number in range(2000)], axis=0)
    for _ in range(32):
        tiered.engine.search(asked, WantedNeighbours(ItemKind.SEGMENT, scope(), 10))
    tiered.engine.maintain()
    assert tiered.tier.audited
    assert tiered.tier.recall < 0.58

    tiered.clock.now_s += 600
    tiered.engine.maintain()

    assert len(tiered.library.made) == 2
    assert tiered.tier.n_probes > probes
    assert not tiered.tier.audited
    tiered.engine.maintain()
    assert tiered.tier.audited
    assert tiered.tier.recall >= 0.6


def test_the_threshold_is_measured_once_there_are_enough_rows_for_it() -> None:
    measured: list[int] = []

    def measure() -> int:
        measured.append(1)
        return 50

    library = WatchedLibrary()
    engine = TieredIndex(
        DIMENSION, library, replace(LISTS_AT_ONCE, exact_max_rows=20), measure=measure
    )
    engine.apply([row(number) for number in range(20)], [])
    engine.maintain()
    assert not measured
    engine.apply([row(number) for number in range(20, 50)], [])
    engine.maintain()
    engine.maintain()
    assert measured == [1]
    assert not library.made
    engine.apply([row(50)], [])
    engine.maintain()
    assert len(library.made) == 1


def test_a_threshold_that_there_is_no_memory_to_measure_stays_what_it_is() -> None:
    tries: list[int] = []

    def measure() -> int:
        tries.append(1)
        raise OutOfMemoryError("262,144 more rows in lists")

    engine = TieredIndex(
        DIMENSION, WatchedLibrary(), replace(LISTS_AT_ONCE, exact_max_rows=20), measure=measure
    )
    engine.apply([row(number) for number in range(50)], [])
    engine.maintain()
    engine.maintain()

    assert tries == [1]
    assert engine.generation == 1


def test_an_empty_index_names_no_tier() -> None:
    assert Tiered().engine.tiers() == []
