"""The rows of a shelf as columns."""

from __future__ import annotations

import numpy as np
import torch

from serving.adapters.vector_index.columns import VECTORS_AT_ONCE, Columns, Numbers
from serving.domain.records import TenantName, segment_id
from serving.ports import IndexRow

ROWS = 2 * VECTORS_AT_ONCE + 3


def test_vectors_of_more_rows_than_are_copied_at_once_stay_with_their_rows() -> None:
    vectors = np.random.default_rng(0).standard_normal((ROWS, 2)).astype(np.float16)
    columns = Columns(ROWS, 2, torch.device("cpu"))
    columns.append(
        [IndexRow(tenant=TenantName("t"), item=segment_id("book"), vectors=vectors)], Numbers()
    )
    kept = np.flatnonzero(np.arange(ROWS) % 7)
    pauses: list[None] = []

    copied = columns.copied(kept, ROWS, ROWS, lambda: pauses.append(None))

    assert np.array_equal(copied.vectors[: len(kept)].numpy(), vectors[kept])
    assert pauses
