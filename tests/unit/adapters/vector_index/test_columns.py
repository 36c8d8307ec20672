"""The rows of a partition as columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from serving.adapters.vector_index.rows.columns import VECTORS_AT_ONCE, Columns, ItemNumbers
from serving.domain.items.records import TenantName, segment_id
from serving.ports.index_engine import IndexRow

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
    columns = Columns(ROOM, 2, device)
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
