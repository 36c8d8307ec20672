"""Two questions in one breath, as one text and one by one."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from bench.harness.collection import Query
from bench.quality.variants.doubled import APART, SPLIT, WHOLE, Pair, in_turn, main, pairs
from tests.fakes.service import running
from tests.support.builders import A_DAY_LATER, segment
from tests.unit.bench.quality.tune.ranking_service import Ranking
from trivium.values import Hit, Segment


def asked(id_: str, tenant: str = "t", relevant: str = "") -> Query:
    return Query(id=id_, tenant=tenant, text=f"{id_}?", relevant=frozenset(relevant))


def found(names: str) -> list[Hit]:
    return [
        Hit(item=Segment(id=name, text=name), rank=rank, score=1 / rank, legs=("dense",))
        for rank, name in enumerate(names, start=1)
    ]


def test_pairs_are_of_one_conversation_and_use_no_question_twice() -> None:
    queries = [asked("1", "x"), asked("2", "y"), asked("3", "x"), asked("4", "x"), asked("5", "y")]

    assert [(pair.first.id, pair.second.id) for pair in pairs(queries)] == [("1", "3"), ("2", "5")]


def test_a_pair_is_answered_by_what_answers_either() -> None:
    whole = Pair(asked("1", relevant="ab"), asked("2", relevant="bc")).whole

    assert whole.text == "1? 2?"
    assert whole.relevant == {"a", "b", "c"}


def test_answers_are_taken_in_turn_and_no_hit_twice() -> None:
    hits = in_turn(found("abcd"), found("bx"), limit=4)

    assert "".join(hit.id for hit in hits) == "abxc"


def test_all_ways_are_scored_over_the_same_pairs(tmp_path: Path) -> None:
    folder = tmp_path / "talk"
    folder.mkdir()
    rows = [segment(name, f"Text {name}.") for name in "abcd"]
    corpus = [{"id": row.id, "text": row.text} for row in rows]
    queries = [
        {"id": f"q{place}", "text": f"Which {place}?", "as_of": A_DAY_LATER.isoformat()}
        for place in range(4)
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps(each) + "\n" for each in queries))
    (folder / "qrels.tsv").write_text("".join(f"q{place}\ta\t1\n" for place in range(4)))
    definition = {"description": "Meaning.", "legs": {"dense": {}}}
    service = Ranking(definition, rows, {"dense": {"b": 0.9, "a": 0.8}})

    with running(service):
        given = [str(folder), "--address", service.address, "--out", str(tmp_path / "out")]
        result = CliRunner().invoke(main, given, catch_exceptions=False)

    assert result.exit_code == 0, result.output
    (where,) = (tmp_path / "out").iterdir()
    records = [json.loads(line) for line in (where / "results.jsonl").read_text().splitlines()]
    assert [each["parameters"]["way"] for each in records] == [
        way.name for way in (WHOLE, SPLIT, APART)
    ]
    assert [each["n"] for each in records] == [2, 2, 2]
    assert [each["measured"]["mrr@10"]["mean"] for each in records] == [0.5, 0.5, 0.5]
    texts = [request.query for request in service.asked if request.query.startswith("Which")]
    assert len(texts) == 2 * 4
    assert sum(text.count("?") == 2 for text in texts) == 2 * 2
