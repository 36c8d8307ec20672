"""The blocks of the diary in docs/briefing.md."""

from __future__ import annotations

import json

from bench.harness.collection import read_collection
from bench.quality import blocks

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
