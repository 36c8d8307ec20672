"""Inverted lists by FAISS."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from serving.adapters.vector_index.lists import faiss_lists
from serving.adapters.vector_index.lists.faiss_lists import FaissLibrary, FaissLists, SharedLock

SLOTS = 3 * np.arange(200) + 7
ROWS = torch.nn.functional.normalize(
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

    made = FaissLibrary().train(ROWS, 8)
    index = SlowIndex(made._index)
    monkeypatch.setattr(faiss_lists, "SharedLock", ObservedLock)
    lists = FaissLists(index, 1)
    lists.extend(ROWS[:100], torch.from_numpy(SLOTS[:100]))
    more = ROWS[100:], torch.from_numpy(SLOTS[100:])
    extending = threading.Thread(target=lambda: lists.extend(*more))

    lists.search(ROWS[:1].float(), 1, 8, None)
    extending.join()

    assert index.added_meanwhile == 0
    assert index.ntotal == len(ROWS)
