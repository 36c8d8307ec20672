"""How the rows of a shelf are searched, in numbers."""

from __future__ import annotations

from dataclasses import replace

from serving.adapters.vector_index.trained import Trained
from serving.adapters.vector_index.view import View
from serving.domain.index_costs import MemoryPlan
from serving.domain.records import ItemKind
from serving.ports import IndexTier


def exact_tier(kind: ItemKind, view: View, dimension: int) -> IndexTier:
    """Rows that are all read."""
    return IndexTier(
        kind=kind,
        rows=view.alive_count,
        dead=view.count - view.alive_count,
        memory_bytes=MemoryPlan(rows=view.count, dimension=dimension).total_bytes,
    )


def tier_of(
    kind: ItemKind, view: View, dimension: int, target: float, audited: float | None
) -> IndexTier:
    """Rows in lists, if there are any.

    Args:
        kind: Theirs.
        view: The rows.
        dimension: Of vectors.
        target: Of recall.
        audited: The recall of questions in earnest, if it was measured.
    """
    tier, trained = exact_tier(kind, view, dimension), view.trained
    if trained is None:
        return tier
    return _with_lists(tier, view, trained, dimension, target, audited)


def _with_lists(
    tier: IndexTier,
    view: View,
    trained: Trained,
    dimension: int,
    target: float,
    audited: float | None,
) -> IndexTier:
    n_lists, calibration = trained.lists.n_lists, trained.calibration
    plan = MemoryPlan(rows=view.count, dimension=dimension, n_lists=n_lists)
    return replace(
        tier,
        tail=view.tail,
        memory_bytes=plan.total_bytes,
        n_lists=n_lists,
        n_probes=calibration.n_probes,
        recall_target=target,
        recall=calibration.chosen.recall if audited is None else audited,
        audited=audited is not None,
        curve=calibration.curve,
    )
