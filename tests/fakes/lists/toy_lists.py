"""The least engine of vectors: it reads every row. docs/extending.md walks through it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from serving.adapters.vector_index.arrays import Array
from serving.adapters.vector_index.lists.inverted_lists import ListFilter


class ToyLists:
    """Rows and their slots, replaced together: searches need no lock."""

    def __init__(self, dimension: int, n_lists: int) -> None:
        self.n_lists = n_lists
        self._held = np.empty((0, dimension), np.float32), np.empty(0, np.int64)

    def extend(self, vectors: Array, slots: Array) -> None:
        rows, held = self._held
        slots = np.concatenate([held, np.asarray(slots)])
        if not (np.diff(slots) > 0).all():
            raise ValueError(f"slots must ascend from {held[-1] + 1}: rows are stored once")
        self._held = np.concatenate([rows, np.asarray(vectors, np.float32)]), slots

    def allow(self, mask: NDArray[np.bool_]) -> ListFilter:
        return mask

    def search(self, queries: Array, k: int, n_probes: int, allowed: ListFilter | None) -> Array:
        rows, slots = self._held
        scores = np.asarray(queries) @ rows.T
        if isinstance(allowed, np.ndarray):
            within = np.minimum(slots, len(allowed) - 1)
            scores[:, (slots >= len(allowed)) | ~allowed[within]] = -np.inf
        best = np.argsort(-scores, axis=1)[:, :k]
        found = np.full((len(scores), k), -1)
        is_found = np.isfinite(np.take_along_axis(scores, best, axis=1))
        found[:, : best.shape[1]] = np.where(is_found, slots[best], -1)
        return found


class ToyLibrary:
    """Makes them; there is nothing to train."""

    holds_searches = False

    def train(self, sample: Array, n_lists: int) -> ToyLists:
        if len(sample) < n_lists:
            raise ValueError(f"{n_lists} lists need as many rows to train on, got {len(sample)}")
        return ToyLists(sample.shape[1], n_lists)
