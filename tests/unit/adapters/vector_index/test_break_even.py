"""The measured number of rows from which lists are faster than a scan."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from serving.adapters.vector_index.host_memory import free_bytes
from serving.adapters.vector_index.tuning.break_even import measured_exact_max_rows
from serving.adapters.vector_index.tuning.costs import LEAST_EXACT_ROWS, MOST_EXACT_ROWS
from tests.fakes.lists.eager_lists import WatchedLibrary


def test_both_ways_are_timed_and_the_lists_freed() -> None:
    library = WatchedLibrary()

    rows = measured_exact_max_rows(library, 16, timed_rows=(256, 1024))

    assert LEAST_EXACT_ROWS <= rows <= MOST_EXACT_ROWS
    assert len(library.made) == 2
    assert all(lists.searches and lists.closed for lists in library.made)


def test_where_a_scan_takes_no_longer_with_more_rows_lists_never_pay() -> None:
    ticks = count()

    rows = measured_exact_max_rows(
        WatchedLibrary(), 16, timed_rows=(256, 1024), clock=lambda: next(ticks)
    )

    assert rows == MOST_EXACT_ROWS


def test_a_container_may_have_less_memory_than_its_machine(tmp_path: Path) -> None:
    machine = free_bytes(tmp_path)
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    contained = free_bytes(tmp_path)
    (tmp_path / "memory.max").write_text("max\n")

    assert contained == 3000
    assert machine > 3000
    assert free_bytes(tmp_path) > 3000
