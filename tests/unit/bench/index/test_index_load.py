"""Searches on a schedule beside rebuilds and writes, over few rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bench.index.load import (
    BusyElsewhere,
    Callers,
    Load,
    fill,
    rebuilt_under_load,
    written_under_load,
)
from bench.index.searches import topic_mixture
from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.lists.faiss_lists import FaissLibrary
from serving.domain.items.records import ItemId, TenantName
from serving.ports.embedding import Vector
from serving.ports.index_engine import IndexRow
from tests.fakes.lists.eager_lists import LISTS_AT_ONCE

LOAD = Load(per_s=500, quiet_s=0.05)
CORPUS = topic_mixture(300, 16)


def in_lists() -> TieredIndex:
    engine = TieredIndex(16, FaissLibrary(), LISTS_AT_ONCE)
    fill(engine, CORPUS.vectors)
    engine.maintain()
    return engine


def test_a_rebuild_keeps_all_rows_and_searches_are_timed_before_and_beside_it() -> None:
    engine = in_lists()

    result = rebuilt_under_load(engine, CORPUS.vectors, CORPUS.queries, LOAD)

    assert engine.vector_count == 300
    assert engine.generation == 2
    assert result.n >= LOAD.callers
    assert result.measured["goal"] in ("<= 3 times: reached", "<= 3 times: **missed**")


def test_what_others_use_of_the_machine_is_told_without_what_is_used_here() -> None:
    readings = iter([(10.0, 1.0, 100.0), (14.0, 4.0, 109.0)])

    assert BusyElsewhere(lambda: next(readings)).cores() == 1.5


def test_what_is_written_is_seen_and_what_is_removed_is_not() -> None:
    engine = in_lists()

    written, removed = written_under_load(engine, CORPUS.vectors, CORPUS.queries, LOAD, writes=5)

    assert (written.n, removed.n) == (5, 5)
    assert written.measured["searches_until_seen"] == 1
    assert removed.measured["goal"] == "the next search: reached"
    assert engine.vector_count == 300


class LateIndex(ExactIndex):
    """Shows a change only when the next one comes."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self._late: tuple[Sequence[IndexRow], Sequence[tuple[TenantName, ItemId]]] = ((), ())

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        late, self._late = self._late, (rows, removed)
        super().apply(*late)


def test_a_write_that_is_never_seen_fails() -> None:
    with pytest.raises(AssertionError, match="upsert was not seen"):
        written_under_load(LateIndex(16), CORPUS.vectors, CORPUS.queries, LOAD, writes=1)


def test_a_search_that_fails_fails_the_measurement() -> None:
    def fail(vector: Vector) -> object:
        raise ValueError("no such index")

    with pytest.raises(ValueError, match="no such index"), Callers(fail, CORPUS.queries, LOAD):
        pass


def test_each_caller_asks_at_least_once_and_is_timed_from_when_it_was_due() -> None:
    asked: list[Vector] = []

    with Callers(asked.append, CORPUS.queries, Load(per_s=1e-3)) as callers:
        pass

    assert len(asked) == len(callers.seconds) == 2
    assert min(callers.seconds) >= 0
    assert np.array_equal(sorted(map(tuple, asked)), sorted(map(tuple, CORPUS.queries[:2])))
