"""The index engine that the settings name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.config import IndexSettings, load_settings
from serving.deployments.index_engine import make_index_engine, tier_figures
from serving.domain.records import ItemKind
from serving.ports import IndexTier


def test_by_default_many_rows_are_in_lists() -> None:
    assert isinstance(make_index_engine(IndexSettings(), 8), TieredIndex)
    assert isinstance(make_index_engine(IndexSettings(kind="exact"), 8), ExactIndex)


@pytest.mark.parametrize(
    "wrong", [{"kind": "hnsw"}, {"exact_max_rows": 0}, {"recall_target": 1.1}, {"lists": 5}]
)
def test_index_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="index"):
        load_settings({"index": wrong})


def test_figures_are_of_all_tenants_by_kind() -> None:
    exact = IndexTier(kind=ItemKind.SEGMENT, rows=100, dead=10, memory_bytes=1)
    good = IndexTier(
        kind=ItemKind.SEGMENT, rows=5000, dead=500, memory_bytes=1, tail=20, n_lists=64, recall=0.99
    )
    poor = IndexTier(
        kind=ItemKind.SEGMENT,
        rows=3000,
        dead=0,
        memory_bytes=1,
        n_lists=32,
        recall=0.9,
        rebuilding="filling 10 %",
        failure="no memory",
    )

    figures = {
        (metric.name, *labels.values()): value
        for metric, value, labels in tier_figures([exact, good, poor])
    }

    rows = {place: figures["trivium_index_rows", "segment", place] for place in PLACES}
    assert rows == {"exact": 100, "lists": 7980, "tail": 20, "dead": 510}
    assert figures["trivium_index_recall", "segment"] == 0.9
    assert figures["trivium_index_recall", "fact"] == 1.0
    assert figures["trivium_index_rebuilds", "segment"] == 1
    assert figures["trivium_index_failed_rebuilds", "segment"] == 1


PLACES = ("exact", "lists", "tail", "dead")
