"""The rows of a partition as columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from serving.adapters.vector_index import ExactIndex, arrays
from serving.adapters.vector_index.arrays import Place
from serving.adapters.vector_index.rows.columns import VECTORS_AT_ONCE, Columns, ItemNumbers
from serving.adapters.vector_index.rows.partition import FIRST_CAPACITY
from serving.domain.items.records import ItemKind, TenantName, segment_id
from serving.ports.index_engine import IndexRow
from serving.ports.vector_index import WantedNeighbours
from tests.fakes.meaning import FAKE_MODEL, segment_row, unit
from tests.support.builders import TENANT, scope, segment

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


def test_small_partitions_beside_a_device_stay_on_the_host() -> None:
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
    for given, gone in changes:
        for each in (engine, plain):
            each.apply(given, [(TENANT, row.item) for row in gone])
        assert is_on_host() == (len(given) != 1)
