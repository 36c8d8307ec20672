"""The contract of inverted lists: FAISS, and cuVS over a fake of its C library."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from serving.adapters.vector_index.lists.errors import ListsError
from serving.adapters.vector_index.lists.faiss_lists import FaissLibrary
from serving.adapters.vector_index.lists.inverted_lists import (
    InvertedLists,
    ListFilter,
    ListHits,
    ListsLibrary,
)

DIMENSION, N_LISTS = 16, 8

SLOTS = 3 * np.arange(200) + 7
"""With gaps, as left by tombstones."""

END = int(SLOTS[-1]) + 1


def unit_rows(count: int, seed: int = 0) -> torch.Tensor:
    rows = torch.randn((count, DIMENSION), generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(rows).half()


ROWS = unit_rows(len(SLOTS))
QUERIES = unit_rows(5, seed=1).float()


class TensorLists:
    """`InvertedLists` of NumPy arrays, with the results as tensors."""

    def __init__(self, lists: InvertedLists) -> None:
        self._lists = lists
        self.list_sizes = lists.list_sizes
        self.extend = lists.extend
        self.allow = lists.allow
        self.keep_only = lists.keep_only
        self.save = lists.save
        self.close = lists.close

    @property
    def n_lists(self) -> int:
        return self._lists.n_lists

    def search(self, queries: Any, k: int, n_probes: int, allowed: ListFilter | None) -> ListHits:
        return ListHits(*map(torch.from_numpy, self._lists.search(queries, k, n_probes, allowed)))


class TensorLibrary:
    """A `ListsLibrary` of `TensorLists`."""

    def __init__(self, library: ListsLibrary) -> None:
        self._library = library
        self.name = library.name

    def train(self, sample: torch.Tensor, n_lists: int) -> InvertedLists:
        return TensorLists(self._library.train(sample, n_lists))

    def load(self, path: Path) -> InvertedLists:
        return TensorLists(self._library.load(path))


@pytest.fixture(params=["faiss", "cuvs"])
def library(request: pytest.FixtureRequest) -> ListsLibrary:
    if request.param == "faiss":
        return TensorLibrary(FaissLibrary())
    made: ListsLibrary = request.getfixturevalue("cuvs")
    return made


@pytest.fixture
def lists(library: ListsLibrary) -> InvertedLists:
    lists = library.train(ROWS, N_LISTS)
    lists.extend(ROWS, torch.from_numpy(SLOTS))
    return lists


def among(slots: NDArray[np.int64], length: int = END) -> NDArray[np.bool_]:
    """A mask that allows these slots."""
    return np.isin(np.arange(length), slots)


def found(nearest: ListHits) -> list[list[int]]:
    """The slots found for each query, best first."""
    orders = nearest.scores.argsort(dim=1, descending=True, stable=True)
    slots = nearest.slots.gather(1, orders)
    return [[slot for slot in each if slot >= 0] for each in slots.tolist()]


def exact(queries: torch.Tensor, k: int, passing: NDArray[np.bool_] | None = None) -> ListHits:
    """The result of a scan of the allowed rows, bool (rows,)."""
    scores = queries.half().float() @ ROWS.float().T
    if passing is not None:
        scores[:, torch.from_numpy(~passing)] = -torch.inf
    best = scores.topk(k)
    slots = torch.from_numpy(SLOTS)[best.indices]
    return ListHits(best.values, torch.where(best.values.isfinite(), slots, -1))


def test_a_search_of_all_lists_finds_what_a_scan_does(lists: InvertedLists) -> None:
    nearest = lists.search(QUERIES, 10, N_LISTS, None)

    assert nearest.scores.shape == nearest.slots.shape == (5, 10)
    assert (nearest.scores.dtype, nearest.slots.dtype) == (torch.float32, torch.int64)
    assert found(nearest) == exact(QUERIES, 10).slots.tolist()
    ordered = nearest.scores.sort(dim=1, descending=True).values
    assert ordered.numpy() == pytest.approx(exact(QUERIES, 10).scores.numpy(), abs=2e-3)


def test_a_search_of_one_list_finds_the_row_that_is_asked_for(lists: InvertedLists) -> None:
    nearest = lists.search(ROWS.float(), 1, 1, None)

    assert nearest.slots[:, 0].tolist() == SLOTS.tolist()


def test_lists_come_empty_and_find_nothing(library: ListsLibrary) -> None:
    lists = library.train(ROWS, N_LISTS)

    nearest = lists.search(QUERIES, 3, N_LISTS, lists.allow(np.ones(10, np.bool_)))

    assert nearest.slots.tolist() == [[-1] * 3] * 5
    assert torch.isneginf(nearest.scores).all()
    assert lists.list_sizes().tolist() == [0] * N_LISTS == [0] * lists.n_lists


def test_each_row_is_in_one_list(lists: InvertedLists) -> None:
    sizes = lists.list_sizes()

    assert (sizes.shape, sizes.dtype) == ((N_LISTS,), np.dtype(np.int64))
    assert sizes.sum() == len(SLOTS)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9, 33, 256])
def test_what_was_not_found_is_minus_one_at_minus_infinity(lists: InvertedLists, k: int) -> None:
    allowed = lists.allow(among(SLOTS[:3]))

    nearest = lists.search(QUERIES, k, N_LISTS, allowed)

    is_found = nearest.slots >= 0
    assert is_found.sum(dim=1).tolist() == [min(k, 3)] * 5
    assert (nearest.slots[~is_found] == -1).all()
    assert torch.isneginf(nearest.scores[~is_found]).all()
    assert nearest.scores[is_found].abs().max() <= 1.01


def test_what_an_earlier_search_found_is_not_found_again(lists: InvertedLists) -> None:
    lists.search(QUERIES, 20, N_LISTS, None)

    nearest = lists.search(QUERIES, 20, N_LISTS, lists.allow(among(SLOTS[:1])))

    assert found(nearest) == [[int(SLOTS[0])]] * 5


def test_what_is_answered_stays_as_it_is_while_others_search(lists: InvertedLists) -> None:
    nearest = lists.search(QUERIES, 10, N_LISTS, None)

    lists.search(-QUERIES, 10, N_LISTS, None)

    assert found(nearest) == exact(QUERIES, 10).slots.tolist()


@given(passing=st.lists(st.booleans(), min_size=200, max_size=200), k=st.integers(1, 40))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_k_rows_are_found_whenever_as_many_pass(
    lists: InvertedLists, passing: list[bool], k: int
) -> None:
    mask = np.array(passing)

    nearest = lists.search(QUERIES, k, N_LISTS, lists.allow(among(SLOTS[mask])))

    wanted = exact(QUERIES, k, mask).slots
    assert [set(each) for each in found(nearest)] == [
        {slot for slot in each if slot >= 0} for each in wanted.tolist()
    ]


def test_a_query_that_is_no_number_finds_nothing(lists: InvertedLists) -> None:
    nearest = lists.search(torch.full((1, DIMENSION), torch.nan), 5, N_LISTS, None)

    assert nearest.slots.tolist() == [[-1] * 5]


def test_no_queries_find_nothing(lists: InvertedLists) -> None:
    assert lists.search(QUERIES[:0], 5, N_LISTS, None).slots.shape == (0, 5)


def test_slots_beyond_the_mask_do_not_pass(lists: InvertedLists) -> None:
    nearest = lists.search(QUERIES[:1], 200, N_LISTS, lists.allow(np.ones(100, np.bool_)))

    assert set(found(nearest)[0]) == set(SLOTS[SLOTS < 100].tolist())


def test_a_mask_may_be_longer_than_there_are_slots(lists: InvertedLists) -> None:
    mask = np.ones(100_000, np.bool_)

    assert len(found(lists.search(QUERIES[:1], 256, N_LISTS, lists.allow(mask)))[0]) == 200


def test_rows_that_come_after_a_mask_do_not_pass_it_however_far_their_slots(
    lists: InvertedLists,
) -> None:
    allowed = lists.allow(np.ones(END, np.bool_))
    lists.extend(QUERIES[:2].half(), torch.tensor([END, 1_000_003]))

    assert found(lists.search(QUERIES, 5, N_LISTS, allowed)) == exact(QUERIES, 5).slots.tolist()
    assert [each[0] for each in found(lists.search(QUERIES[:2], 1, N_LISTS, None))] == [
        END,
        1_000_003,
    ]


@pytest.mark.parametrize("slots", [[END - 1], [1000, 1000], [1001, 1000], [3]])
def test_a_slot_that_is_not_new_is_refused_and_adds_nothing(
    lists: InvertedLists, slots: list[int]
) -> None:
    with pytest.raises(ValueError, match=f"ascend from {END}"):
        lists.extend(ROWS[: len(slots)], torch.tensor(slots))

    assert lists.list_sizes().sum() == len(SLOTS)
    assert found(lists.search(QUERIES, 5, N_LISTS, None)) == exact(QUERIES, 5).slots.tolist()


def test_no_rows_are_added_without_complaint(lists: InvertedLists) -> None:
    lists.extend(ROWS[:0], torch.from_numpy(SLOTS[:0]))

    assert lists.list_sizes().sum() == len(SLOTS)


def test_rows_may_be_views_of_others(library: ListsLibrary) -> None:
    wide = torch.cat([ROWS, ROWS], dim=1)
    lists = library.train(wide[:, :DIMENSION], N_LISTS)

    lists.extend(wide[:, :DIMENSION], torch.from_numpy(np.repeat(SLOTS, 2))[::2])

    assert found(lists.search(QUERIES, 5, N_LISTS, None)) == exact(QUERIES, 5).slots.tolist()


def test_fewer_rows_than_lists_are_too_few_to_train_on(library: ListsLibrary) -> None:
    with pytest.raises(ValueError, match="8 lists need as many rows to train on, got 7"):
        library.train(ROWS[:7], N_LISTS)


def test_what_was_saved_is_loaded_and_extended_further(
    library: ListsLibrary, lists: InvertedLists, tmp_path: Path
) -> None:
    lists.save(tmp_path / "lists")

    loaded = library.load(tmp_path / "lists")

    for each, again in zip(
        lists.search(QUERIES, 9, 2, None), loaded.search(QUERIES, 9, 2, None), strict=True
    ):
        assert torch.equal(each, again)
    assert loaded.list_sizes().tolist() == lists.list_sizes().tolist()
    with pytest.raises(ValueError, match=f"ascend from {END}"):
        loaded.extend(ROWS[:1], torch.tensor([END - 1]))
    loaded.extend(ROWS[:1], torch.tensor([END]))
    assert loaded.list_sizes().sum() == len(SLOTS) + 1


def test_dead_rows_leave_the_lists_or_the_lists_say_that_they_cannot(lists: InvertedLists) -> None:
    assert lists.keep_only(among(SLOTS))
    before = found(lists.search(QUERIES, 5, N_LISTS, None))
    dead = {slots[0] for slots in before}
    alive = among(np.setdiff1d(SLOTS, list(dead)))

    removed = lists.keep_only(alive)

    assert lists.list_sizes().sum() == len(SLOTS) - (len(dead) if removed else 0)
    after = found(lists.search(QUERIES, 5, N_LISTS, lists.allow(alive)))
    assert after == [
        [slot for slot in slots if slot not in dead][:5]
        for slots in exact(QUERIES, 5 + len(dead)).slots.tolist()
    ]


@pytest.mark.parametrize(
    "content", [b"", b"no index", b"IxFI" + bytes(40), b"TRIVCUVS" + bytes(60)]
)
def test_a_file_that_holds_no_lists_is_refused(
    library: ListsLibrary, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "lists").write_bytes(content)

    with pytest.raises(ListsError, match="lists"):
        library.load(tmp_path / "lists")


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_file_that_was_cut_short_is_refused(
    library: ListsLibrary, lists: InvertedLists, tmp_path: Path, share: float
) -> None:
    path = tmp_path / "lists"
    lists.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])

    with pytest.raises(ListsError, match="lists"):
        library.load(path)


def test_a_library_says_what_it_is(library: ListsLibrary) -> None:
    name, _, version = library.name.partition(" ")

    assert name in {"faiss", "cuvs"}
    assert version.replace(".", "").isdigit()


def test_searches_beside_extensions_find_each_row_that_was_there_before(
    library: ListsLibrary,
) -> None:
    rows = unit_rows(1024, seed=3)
    lists = library.train(rows[:256], 4)
    lists.extend(rows[:256], torch.arange(256))
    allowed = lists.allow(np.ones(8, np.bool_))
    missed: list[int] = []
    ended = threading.Event()

    def search() -> None:
        while not ended.is_set():
            for mask in (None, allowed):
                nearest = lists.search(rows[:8].float(), 1, 4, mask)
                missed.extend(slot for slot, each in enumerate(nearest.slots) if each[0] != slot)

    searching = [threading.Thread(target=search) for _ in range(2)]
    for thread in searching:
        thread.start()
    for start in range(256, 1024, 64):
        lists.extend(rows[start : start + 64], torch.arange(start, start + 64))
    ended.set()
    for thread in searching:
        thread.join()

    assert not missed
    assert lists.list_sizes().sum() == 1024
