"""The contract of libraries of inverted lists: on the CPU, on a GPU, and a toy."""

from __future__ import annotations

import importlib.util
import threading

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from serving.adapters.vector_index.lists import CpuLibrary
from serving.adapters.vector_index.lists.inverted_lists import (
    InvertedLists,
    ListFilter,
    ListsLibrary,
)
from tests.fakes.lists.toy_lists import ToyLibrary

DIMENSION, N_LISTS = 16, 8

SLOTS = 3 * np.arange(200) + 7
"""With gaps, as left by tombstones."""

END = int(SLOTS[-1]) + 1


def unit_rows(count: int, seed: int = 0) -> torch.Tensor:
    rows = torch.randn((count, DIMENSION), generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(rows).half()


ROWS = unit_rows(len(SLOTS))
QUERIES = unit_rows(5, seed=1).float()


class HostLists:
    """`InvertedLists` of a device, which take and return tensors of the host."""

    def __init__(self, lists: InvertedLists, device: str) -> None:
        self._lists = lists
        self._device = device
        self.n_lists = lists.n_lists
        self.allow = lists.allow

    def extend(self, vectors: torch.Tensor, slots: torch.Tensor) -> None:
        self._lists.extend(vectors.to(self._device), slots.to(self._device))

    def search(
        self, queries: torch.Tensor, k: int, n_probes: int, allowed: ListFilter | None
    ) -> torch.Tensor:
        slots = self._lists.search(queries.to(self._device), k, n_probes, allowed)
        return torch.as_tensor(slots).cpu()


class HostLibrary:
    """A `ListsLibrary` of `HostLists`."""

    holds_searches = False

    def __init__(self, library: ListsLibrary, device: str) -> None:
        self._library = library
        self._device = device

    def train(self, sample: torch.Tensor, n_lists: int) -> HostLists:
        return HostLists(self._library.train(sample.to(self._device), n_lists), self._device)


needs_cuvs = pytest.mark.skipif(
    not torch.cuda.is_available() or importlib.util.find_spec("cuvs") is None,
    reason="needs a CUDA device and cuVS",
)


@pytest.fixture(params=["cpu", "toy", pytest.param("cuvs", marks=[pytest.mark.gpu, needs_cuvs])])
def library(request: pytest.FixtureRequest) -> HostLibrary:
    if request.param != "cuvs":
        return HostLibrary(CpuLibrary() if request.param == "cpu" else ToyLibrary(), "cpu")
    from serving.gpu.cuvs_lists import CuvsLibrary

    return HostLibrary(CuvsLibrary(torch.device("cuda")), "cuda")


@pytest.fixture
def lists(library: HostLibrary) -> HostLists:
    lists = library.train(ROWS, N_LISTS)
    lists.extend(ROWS, torch.from_numpy(SLOTS))
    return lists


def among(slots: NDArray[np.int64], length: int = END) -> NDArray[np.bool_]:
    return np.isin(np.arange(length), slots)


def found(slots: torch.Tensor) -> list[set[int]]:
    return [{slot for slot in each if slot >= 0} for each in slots.tolist()]


def exact(
    queries: torch.Tensor, k: int, passing: NDArray[np.bool_] | None = None
) -> list[set[int]]:
    """The result of a scan of the allowed rows, bool (rows,)."""
    scores = queries.half().float() @ ROWS.float().T
    if passing is not None:
        scores[:, torch.from_numpy(~passing)] = -torch.inf
    best = scores.topk(k)
    slots = torch.from_numpy(SLOTS)[best.indices]
    return found(torch.where(best.values.isfinite(), slots, -1))


def test_a_search_of_all_lists_equals_a_scan(lists: HostLists) -> None:
    slots = lists.search(QUERIES, 10, N_LISTS, None)

    assert (slots.shape, slots.dtype) == ((5, 10), torch.int64)
    assert found(slots) == exact(QUERIES, 10)


def test_a_search_of_one_list_finds_the_same_row(lists: HostLists) -> None:
    assert lists.search(ROWS.float(), 1, 1, None)[:, 0].tolist() == SLOTS.tolist()


def test_new_lists_are_empty(library: HostLibrary) -> None:
    lists = library.train(ROWS, N_LISTS)

    assert lists.n_lists == N_LISTS
    assert (
        found(lists.search(QUERIES, 3, N_LISTS, lists.allow(np.ones(10, np.bool_)))) == [set()] * 5
    )


@pytest.mark.parametrize("k", [1, 3, 256])
def test_missing_results_are_minus_one(lists: HostLists, k: int) -> None:
    slots = lists.search(QUERIES, k, N_LISTS, lists.allow(among(SLOTS[:3])))

    assert (slots >= 0).sum(dim=1).tolist() == [min(k, 3)] * 5
    assert (slots[slots < 0] == -1).all()


def test_a_later_search_leaves_an_answer_unchanged(lists: HostLists) -> None:
    slots = lists.search(QUERIES, 10, N_LISTS, None)

    lists.search(-QUERIES, 10, N_LISTS, None)

    assert found(slots) == exact(QUERIES, 10)


@given(passing=st.lists(st.booleans(), min_size=200, max_size=200), k=st.integers(1, 40))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_filtered_search_of_all_lists_equals_a_scan(
    lists: HostLists, passing: list[bool], k: int
) -> None:
    mask = np.array(passing)

    slots = lists.search(QUERIES, k, N_LISTS, lists.allow(among(SLOTS[mask])))

    assert found(slots) == exact(QUERIES, k, mask)


def test_a_query_of_nan_finds_nothing(lists: HostLists) -> None:
    slots = lists.search(torch.full((1, DIMENSION), torch.nan), 5, N_LISTS, None)

    assert slots.tolist() == [[-1] * 5]


def test_slots_beyond_the_mask_do_not_pass(lists: HostLists) -> None:
    slots = lists.search(QUERIES[:1], 200, N_LISTS, lists.allow(np.ones(100, np.bool_)))

    assert found(slots)[0] == set(SLOTS[SLOTS < 100].tolist())


def test_a_mask_may_be_longer_than_the_slots(lists: HostLists) -> None:
    mask = np.ones(100_000, np.bool_)

    assert len(found(lists.search(QUERIES[:1], 256, N_LISTS, lists.allow(mask)))[0]) == 200


def test_rows_added_after_a_mask_do_not_pass(lists: HostLists) -> None:
    allowed = lists.allow(np.ones(END, np.bool_))
    lists.extend(QUERIES[:2].half(), torch.tensor([END, 1_000_003]))

    assert found(lists.search(QUERIES, 5, N_LISTS, allowed)) == exact(QUERIES, 5)
    assert lists.search(QUERIES[:2], 1, N_LISTS, None).tolist() == [[END], [1_000_003]]


@pytest.mark.parametrize("slots", [[END - 1], [1000, 1000], [1001, 1000], [3]])
def test_a_repeated_slot_is_refused(lists: HostLists, slots: list[int]) -> None:
    with pytest.raises(ValueError, match=f"ascend from {END}"):
        lists.extend(ROWS[: len(slots)], torch.tensor(slots))

    assert found(lists.search(QUERIES, 5, N_LISTS, None)) == exact(QUERIES, 5)


def test_adding_no_rows_changes_nothing(lists: HostLists) -> None:
    lists.extend(ROWS[:0], torch.from_numpy(SLOTS[:0]))

    assert found(lists.search(QUERIES, 5, N_LISTS, None)) == exact(QUERIES, 5)


def test_strided_views_are_accepted(library: HostLibrary) -> None:
    wide = torch.cat([ROWS, ROWS], dim=1)
    lists = library.train(wide[:, :DIMENSION], N_LISTS)

    lists.extend(wide[:, :DIMENSION], torch.from_numpy(np.repeat(SLOTS, 2))[::2])

    assert found(lists.search(QUERIES, 5, N_LISTS, None)) == exact(QUERIES, 5)


def test_fewer_rows_than_lists_are_refused(library: HostLibrary) -> None:
    with pytest.raises(ValueError, match="8 lists need as many rows to train on, got 7"):
        library.train(ROWS[:7], N_LISTS)


def test_concurrent_extensions_hide_no_row_from_searches(library: HostLibrary) -> None:
    rows = unit_rows(1024, seed=3)
    lists = library.train(rows[:256], 4)
    lists.extend(rows[:256], torch.arange(256))
    allowed = lists.allow(np.ones(8, np.bool_))
    missed: list[int] = []
    ended = threading.Event()

    def search() -> None:
        while not ended.is_set():
            for filter_ in (None, allowed):
                slots = lists.search(rows[:8].float(), 1, 4, filter_)
                missed.extend(slot for slot in range(8) if slots[slot, 0] != slot)

    searching = [threading.Thread(target=search) for _ in range(2)]
    for thread in searching:
        thread.start()
    for start in range(256, 1024, 64):
        lists.extend(rows[start : start + 64], torch.arange(start, start + 64))
    ended.set()
    for thread in searching:
        thread.join()

    assert not missed
