"""The small memories are what their README says they are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.harness.collection import read_collection
from bench.quality import memories

PER_CATEGORY = {
    "exact": 3,
    "paraphrase": 4,
    "about_person": 7,
    "time": 3,
    "state": 3,
    "two_hop": 2,
    "unanswerable": 3,
}


@pytest.mark.parametrize("folder", memories.FOLDERS, ids=lambda folder: folder.name)
def test_memory_has_questions_and_evidence(folder: Path) -> None:
    collection = read_collection(folder)
    memory = collection.memories[folder.name]
    turns = {segment.id: segment for segment in memory.segments}

    assert collection.problems == []
    assert Counter(query.category for query in collection.queries) == PER_CATEGORY
    assert 60 <= len(turns) <= 90
    assert all(turns.keys() >= set(fact.evidence) for fact in memory.facts)
    for fact in memory.facts:
        if fact.valid_from and fact.valid_to:
            assert fact.valid_from < fact.valid_to, fact.id
    for query in collection.queries:
        assert query.judged == (query.category != "unanswerable"), query.id
        assert turns.keys() >= query.relevant, query.id
        assert query.as_of is not None
        assert all(query.as_of > (each.event_time or query.as_of) for each in turns.values())
    for query in collection.queries:
        if query.category == "about_person":
            speakers = {turns[id_].speaker for id_ in query.relevant}
            assert not any(speaker in query.text for speaker in speakers), query.id
