"""Inverted lists by FAISS."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from serving.adapters.vector_index.lists import faiss_lists
from serving.adapters.vector_index.lists.errors import ListsError
from serving.adapters.vector_index.lists.faiss_lists import FaissLibrary, FaissLists
from serving.adapters.vector_index.lists.shared_lock import SharedLock

DIMENSION = 16
SLOTS = 3 * np.arange(200) + 7


def unit_rows(count: int, seed: int = 0) -> torch.Tensor:
    rows = torch.randn((count, DIMENSION), generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(rows).half()


ROWS = unit_rows(len(SLOTS))


@pytest.fixture
def lists() -> FaissLists:
    lists = FaissLibrary().train(ROWS, 8)
    lists.extend(ROWS, torch.from_numpy(SLOTS))
    return lists


def test_a_search_of_all_lists_finds_what_a_scan_does(lists: FaissLists) -> None:
    queries = unit_rows(5, seed=1).float()

    found = lists.search(queries, 10, 8, None)

    exact = torch.topk(queries @ ROWS.float().T, 10)
    assert found.slots.tolist() == SLOTS[exact.indices.numpy()].tolist()
    assert found.scores == pytest.approx(exact.values.numpy(), abs=1e-5)


def test_what_was_not_found_is_minus_one_at_minus_infinity(lists: FaissLists) -> None:
    allowed = lists.allow(np.isin(np.arange(SLOTS[-1] + 1), SLOTS[:3]))

    found = lists.search(ROWS[:1].float(), 5, 8, allowed)

    assert sorted(found.slots[0].tolist()) == [-1, -1, *SLOTS[:3]]
    assert np.isinf(found.scores[found.slots < 0]).all()
    assert np.isfinite(found.scores[found.slots >= 0]).all()


def test_a_query_that_is_no_number_finds_nothing(lists: FaissLists) -> None:
    found = lists.search(torch.full((1, DIMENSION), torch.nan), 5, 8, None)

    assert found.slots.tolist() == [[-1] * 5]


def test_slots_beyond_the_mask_do_not_pass(lists: FaissLists) -> None:
    found = lists.search(ROWS[:1].float(), 200, 8, lists.allow(np.ones(100, np.bool_)))

    assert set(found.slots[0].tolist()) == {-1, *SLOTS[SLOTS < 100].tolist()}


@pytest.mark.parametrize("slots", [[SLOTS[-1]], [1000, 1000], [1001, 1000], [3]])
def test_a_slot_that_is_not_new_is_refused_and_adds_nothing(
    lists: FaissLists, slots: list[int]
) -> None:
    with pytest.raises(ValueError, match=f"ascend from {SLOTS[-1] + 1}"):
        lists.extend(ROWS[: len(slots)], torch.tensor(slots))

    assert lists.list_sizes().sum() == len(SLOTS)


def test_fewer_rows_than_lists_are_too_few_to_train_on() -> None:
    with pytest.raises(ValueError, match="8 lists need as many rows to train on, got 7"):
        FaissLibrary().train(ROWS[:7], 8)


def test_what_was_saved_is_loaded_and_extended_further(lists: FaissLists, tmp_path: Path) -> None:
    lists.save(tmp_path / "lists")

    loaded = FaissLibrary().load(tmp_path / "lists")

    queries = unit_rows(3, seed=2).float()
    for each, again in zip(
        lists.search(queries, 9, 2, None), loaded.search(queries, 9, 2, None), strict=True
    ):
        assert np.array_equal(each, again)
    with pytest.raises(ValueError, match=f"ascend from {SLOTS[-1] + 1}"):
        loaded.extend(ROWS[:1], torch.tensor([SLOTS[-1]]))
    loaded.extend(ROWS[:1], torch.tensor([SLOTS[-1] + 1]))
    assert loaded.list_sizes().sum() == len(SLOTS) + 1


@pytest.mark.parametrize("content", [b"", b"no index", b"IxFI" + bytes(40)])
def test_a_file_that_holds_no_lists_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lists").write_bytes(content)

    with pytest.raises(ListsError, match="lists"):
        FaissLibrary().load(tmp_path / "lists")


def test_searches_beside_extensions_find_each_row_that_was_there_before() -> None:
    rows = unit_rows(4096, seed=3)
    lists = FaissLibrary().train(rows[:256], 4)
    lists.extend(rows[:256], torch.arange(256))
    missed: list[int] = []
    ended = threading.Event()

    def search() -> None:
        while not ended.is_set():
            found = lists.search(rows[:8].float(), 1, 4, None)
            missed.extend(slot for slot, each in enumerate(found.slots) if each[0] != slot)

    searching = [threading.Thread(target=search) for _ in range(2)]
    for thread in searching:
        thread.start()
    for start in range(256, 4096, 64):
        lists.extend(rows[start : start + 64], torch.arange(start, start + 64))
    ended.set()
    for thread in searching:
        thread.join()

    assert not missed
    assert lists.list_sizes().sum() == 4096


def test_rows_are_added_while_no_search_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
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

    made = FaissLibrary().train(ROWS, 8)
    index = SlowIndex(made._index)
    monkeypatch.setattr(faiss_lists, "SharedLock", ObservedLock)
    lists = FaissLists(index, 0, 1)
    lists.extend(ROWS[:100], torch.from_numpy(SLOTS[:100]))
    more = ROWS[100:], torch.from_numpy(SLOTS[100:])
    extending = threading.Thread(target=lambda: lists.extend(*more))

    lists.search(ROWS[:1].float(), 1, 8, None)
    extending.join()

    assert index.added_meanwhile == 0
    assert index.ntotal == len(ROWS)
