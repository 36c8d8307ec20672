"""Measures the recall of recorded queries against the exact scan."""

from __future__ import annotations

from collections.abc import Sequence

from serving.adapters.vector_index import arrays
from serving.adapters.vector_index.rows.allowed_rows import AllowedRows
from serving.adapters.vector_index.rows.exact_scan import scan_nearest
from serving.adapters.vector_index.rows.partition import RecordedQuery
from serving.adapters.vector_index.rows.tenant_rows import FindNearest
from serving.adapters.vector_index.rows.view import PartitionView
from serving.adapters.vector_index.tuning.calibration import JUDGED, TIE

MOST_AUDITED = 32
"""Each query scans all rows: with a million of them, 32 scans take two seconds."""


def audited_recall(
    search: FindNearest, view: PartitionView, queries: Sequence[RecordedQuery]
) -> float:
    """The share of the true nearest items, at most ten per query, that a search finds.

    All live rows are allowed. Items that score within `TIE` of the last true one count as true.
    """
    allowed = AllowedRows(view.alive)
    wanted = found = 0
    for query in queries:
        vector = arrays.query_beside(query.vector, view.vectors)
        depth = min(query.depth, JUDGED)
        true = scan_nearest(view, allowed, vector, depth)
        if not true:
            continue
        least = true[-1].score - TIE
        good = sum(each.score >= least for each in search(view, allowed, vector, depth))
        wanted, found = wanted + len(true), found + good
    return found / wanted if wanted else 1.0
