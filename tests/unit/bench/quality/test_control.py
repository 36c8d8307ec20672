"""The metrics against those of trec_eval, over the lists of a BM25 that is not ours."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import pytest

from bench.harness.collection import Collection, read_collection
from bench.quality.control import ranked_by_bm25, scored
from bench.quality.slices import FOLDERS

FULL = os.environ.get("TRIVIUM_TEST_MUSIQUE", "")  # noqa: TID251 - a set that cannot ship
"""The folder of the whole set, of which the slice is a part."""

TREC = {
    "recall@5": "recall_5",
    "recall@10": "recall_10",
    "ndcg@10": "ndcg_cut_10",
    "mrr@10": "recip_rank",
}


def means(by_query: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    names = next(iter(by_query.values()))
    return {name: fmean(scores[name] for scores in by_query.values()) for name in names}


def by_trec_eval(
    collection: Collection, ranked: Mapping[str, list[str]]
) -> dict[str, Mapping[str, float]]:
    import pytrec_eval

    judgments = {query.id: dict.fromkeys(query.relevant, 1) for query in collection.judged}
    # It orders by score, and knows no cut of the reciprocal rank: ten scores, all different.
    run = {
        query: {id_: 1.0 / rank for rank, id_ in enumerate(ids[:10], start=1)}
        for query, ids in ranked.items()
    }
    evaluator = pytrec_eval.RelevanceEvaluator(judgments, {"recall", "ndcg_cut", "recip_rank"})
    return dict(evaluator.evaluate(run))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="no wheel of trec_eval's metrics")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_metrics_are_those_of_trec_eval_for_every_question(folder: Path) -> None:
    collection = read_collection(folder)
    ranked = ranked_by_bm25(collection)
    ours, theirs = scored(collection, ranked), by_trec_eval(collection, ranked)

    assert set(ours) == set(theirs)
    for query, found in ours.items():
        for name, trec in TREC.items():
            assert found[name] == pytest.approx(theirs[query][trec]), (query, name)
        assert found["all-gold@10"] == (theirs[query]["recall_10"] == 1)


def test_bm25_scores_on_the_slice_what_it_did() -> None:
    collection = read_collection(FOLDERS[0])

    assert means(scored(collection, ranked_by_bm25(collection))) == pytest.approx(
        {
            "recall@5": 0.6987,
            "recall@10": 0.8109,
            "ndcg@10": 0.7330,
            "mrr@10": 0.8686,
            "all-gold@10": 0.5577,
        },
        abs=5e-5,
    )


@pytest.mark.skipif(not FULL, reason="TRIVIUM_TEST_MUSIQUE names no folder with the whole set")
def test_bm25_reproduces_its_number_on_the_whole_set() -> None:
    collection = read_collection(Path(FULL))

    assert means(scored(collection, ranked_by_bm25(collection))) == pytest.approx(
        {
            "recall@5": 0.482,
            "recall@10": 0.551,
            "ndcg@10": 0.535,
            "mrr@10": 0.754,
            "all-gold@10": 0.2115,
        },
        abs=5e-4,
    )
