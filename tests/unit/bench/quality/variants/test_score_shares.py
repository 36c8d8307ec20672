"""Answers ordered anew by how near each score is to the best of its leg."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.quality.variants.score_shares import ALPHAS, main, ordered
from tests.fakes.service import running
from tests.support.builders import A_DAY_LATER, segment
from tests.unit.bench.quality.tune.ranking_service import Ranking
from trivium.values import Hit, Ledger, LegTerm, Segment


def hit(id_: str, **terms: tuple[float, float, float]) -> Hit:
    """A hit of each leg's term, score and best score."""
    found = tuple(
        LegTerm(leg=leg, rank=1, weight=1, leg_score=score, term=term, max_score=best)
        for leg, (term, score, best) in terms.items()
    )
    ledger = Ledger(leg_terms=found, fused_score=0, rank_constant=2)
    return Hit(item=Segment(id=id_, text=id_), rank=1, score=1, legs=tuple(terms), ledger=ledger)


def test_a_poor_score_loses_its_share_and_a_signal_keeps_its_term() -> None:
    poor = hit("poor", lexical=(0.3, 2.0, 8.0))
    good = hit("good", lexical=(0.2, 7.0, 8.0))
    signal = hit("signal", speaker=(0.25, 1.0, 8.0))
    hits = [poor, signal, good]

    assert [each.id for each in ordered(hits, ("lexical",), 0.0)] == ["poor", "signal", "good"]
    assert [each.id for each in ordered(hits, ("lexical",), 1.0)] == ["signal", "good", "poor"]


def test_every_exponent_is_scored_over_the_same_questions(tmp_path: Path) -> None:
    folder = tmp_path / "talk"
    folder.mkdir()
    rows = [segment(name, f"Text {name}.") for name in "abc"]
    corpus = "".join(json.dumps({"id": row.id, "text": row.text}) + "\n" for row in rows)
    (folder / "corpus.jsonl").write_text(corpus)
    query = {"id": "q", "text": "Which?", "as_of": A_DAY_LATER.isoformat()}
    (folder / "queries.jsonl").write_text(json.dumps(query) + "\n")
    (folder / "qrels.tsv").write_text("q\ta\t1\n")
    # First of one leg and last of the other, but b is nearly the best of both.
    lists = {"lexical": {"c": 9.0, "b": 8.9, "a": 0.1}, "dense": {"a": 0.9, "b": 0.8, "c": 0.1}}
    legs = {"lexical": {}, "dense": {"weight": 1.05}}
    service = Ranking({"description": "Both.", "legs": legs, "rank_constant": 2}, rows, lists)

    with running(service):
        given = [str(folder), "--address", service.address, "--out", str(tmp_path / "out")]
        result = CliRunner().invoke(main, given, catch_exceptions=False)

    assert result.exit_code == 0, result.output
    (where,) = (tmp_path / "out").iterdir()
    records = [json.loads(line) for line in (where / "results.jsonl").read_text().splitlines()]
    ways = {each["parameters"]["way"]: each["measured"]["mrr@10"]["mean"] for each in records}
    assert list(ways) == [f"alpha {alpha:g}" for alpha in ALPHAS]
    assert ways["alpha 0"] == 1.0
    assert ways["alpha 1"] == pytest.approx(1 / 3, abs=1e-4)
