"""What the benchmark of quality asks, stores and counts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import bench.quality
from bench.harness.collection import read_collection
from bench.quality import blocks, memories, slices

QUERIES = {query.id: query for query in read_collection(blocks.DIARY).judged}
TEXTS = {
    turn["id"]: turn["text"]
    for turn in map(json.loads, (blocks.DIARY / "corpus.jsonl").read_text().splitlines())
}


def test_page_shows_the_blocks_of_the_diary() -> None:
    assert blocks.PAGE.read_text(encoding="utf-8") == blocks.page(), (
        "run `make docs` (python -m bench.quality.blocks)"
    )


def test_every_block_holds_an_answer() -> None:
    made = blocks.blocks(blocks.stored())

    without = [
        query.text
        for query in QUERIES.values()
        if not any(TEXTS[id_][-40:] in made[query.id] for id_ in query.relevant)
    ]
    assert (len(made), without) == (25, [])


def test_changed_answer_comes_before_the_former() -> None:
    found = blocks.stored()

    changed = [query for query in QUERIES.values() if query.outdated]
    first = [
        next(id_ for id_ in found[query.id][0] if id_ in query.current | query.outdated)
        for query in changed
    ]
    assert len(changed) == 8
    assert [id_ for id_, query in zip(first, changed, strict=True) if id_ in query.outdated] == []


FOLDER = Path(bench.quality.__file__).parent / "changes"


def test_changes_have_current_and_outdated_segments() -> None:
    collection = read_collection(FOLDER)
    outdated = [query for query in collection.queries if query.outdated]

    assert collection.problems == []
    assert (collection.segment_count, len(collection.judged)) == (514, 240)
    assert (len(outdated), sum(len(query.outdated) for query in outdated)) == (101, 133)
    assert all(query.current and query.outdated.isdisjoint(query.relevant) for query in outdated)


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


ROOT = slices.EXPECTED.parent
MAX_BYTES = 2 << 20


@pytest.mark.parametrize(
    ("name", "questions", "segments"),
    [("musique", 52, 350), ("2wiki", 46, 800), ("sample", 40, 163)],
)
def test_shipped_slice_is_whole(name: str, questions: int, segments: int) -> None:
    slice_ = read_collection(ROOT / name)

    assert slice_.problems == []
    assert len(slice_.judged) == len(slice_.queries) == questions
    assert (slice_.segment_count, len(slice_.memories)) == (segments, 1)
    assert slice_.fact_count > 0


def test_slices_are_small_and_attributed() -> None:
    files = [path for path in ROOT.rglob("*") if path.is_file() and not path.is_symlink()]
    notice = (ROOT / "NOTICE").read_text()

    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
    for owed in ("MuSiQue", "Trivedi", "CC BY 4.0", "2WikiMultihopQA", "Apache", "HippoRAG", "MIT"):
        assert owed in notice
