"""The set of changing values is what its README says it is."""

from __future__ import annotations

from pathlib import Path

import bench.quality
from bench.harness.collection import read_collection

FOLDER = Path(bench.quality.__file__).parent / "changes"


def test_changes_have_current_and_outdated_segments() -> None:
    collection = read_collection(FOLDER)
    outdated = [query for query in collection.queries if query.outdated]

    assert collection.problems == []
    assert (collection.segment_count, len(collection.judged)) == (514, 240)
    assert (len(outdated), sum(len(query.outdated) for query in outdated)) == (101, 133)
    assert all(query.current and query.outdated.isdisjoint(query.relevant) for query in outdated)
