"""What the benchmark of quality asks, stores and counts."""

from __future__ import annotations

import json

from bench.harness.collection import read_collection
from bench.quality import blocks, slices

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


ROOT = slices.EXPECTED.parent
MAX_BYTES = 2 << 20


def test_slices_are_small_and_attributed() -> None:
    files = [path for path in ROOT.rglob("*") if path.is_file() and not path.is_symlink()]
    notice = (ROOT / "NOTICE").read_text()

    assert sum(path.stat().st_size for path in files) <= MAX_BYTES
    for owed in ("MuSiQue", "Trivedi", "CC BY 4.0", "2WikiMultihopQA", "Apache", "HippoRAG", "MIT"):
        assert owed in notice
