"""The rows of a shelf as columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from serving.adapters.vector_index.columns import VECTORS_AT_ONCE, Columns, Numbers
from serving.domain.records import TenantName, segment_id
from serving.ports import IndexRow

ROWS = 2 * VECTORS_AT_ONCE + 3
ROOM = ROWS + 5


@pytest.fixture
def nan_where_nothing_is_written() -> Iterator[None]:
    """Has torch fill what it would leave as it was with NaN, which no vector has."""
    torch.set_deterministic_debug_mode("error")
    yield
    torch.set_deterministic_debug_mode("default")


@pytest.mark.usefixtures("nan_where_nothing_is_written")
def test_vectors_of_more_rows_than_are_copied_at_once_stay_with_their_rows() -> None:
    vectors = np.random.default_rng(0).standard_normal((ROWS, 2)).astype(np.float16)
    columns = Columns(ROOM, 2, torch.device("cpu"))
    columns.append(
        [IndexRow(tenant=TenantName("t"), item=segment_id("book"), vectors=vectors)], Numbers()
    )
    kept = np.flatnonzero(np.arange(ROWS) % 7)
    pauses: list[None] = []

    copied = columns.copied(kept, ROWS, ROOM, lambda: pauses.append(None))

    assert np.array_equal(copied.vectors[: len(kept)].numpy(), vectors[kept])
    assert copied.vectors[len(kept) :].isnan().all()
    assert columns.vectors[ROWS:].isnan().all()
    assert pauses
