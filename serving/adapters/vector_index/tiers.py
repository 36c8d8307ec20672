"""The figures of a partition: its rows, memory and lists."""

from __future__ import annotations

from dataclasses import replace

from serving.adapters.vector_index.rows.view import PartitionView
from serving.adapters.vector_index.tuning.costs import MemoryPlan
from serving.domain.items.records import ItemKind
from serving.ports.vector_index import IndexTier


def tier_of(
    kind: ItemKind,
    view: PartitionView,
    dimension: int,
    recall_target: float = 1.0,
    audited: float | None = None,
) -> IndexTier:
    """Describes how the rows of a view are searched.

    Args:
        kind: Of the rows.
        view: The rows, in lists or not.
        dimension: Of the vectors.
        recall_target: Of searches in lists.
        audited: The recall measured with recorded queries, if it was.
    """
    trained = view.trained
    n_lists = trained.lists.n_lists if trained is not None else 0
    tier = IndexTier(
        kind=kind,
        rows=view.alive_count,
        dead=view.count - view.alive_count,
        memory_bytes=MemoryPlan(rows=view.count, dimension=dimension, n_lists=n_lists).total_bytes,
    )
    if trained is None:
        return tier
    calibration = trained.calibration
    return replace(
        tier,
        tail=view.tail,
        n_lists=n_lists,
        n_probes=calibration.n_probes,
        recall_target=recall_target,
        recall=calibration.chosen.recall if audited is None else audited,
        audited=audited is not None,
        curve=calibration.curve,
    )
