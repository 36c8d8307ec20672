"""Whether questions that were asked in earnest found what a scan finds."""

from __future__ import annotations

from collections.abc import Sequence

from serving.adapters.vector_index.allowed import Allowed
from serving.adapters.vector_index.calibration import JUDGED, TIE
from serving.adapters.vector_index.exact_scan import nearest
from serving.adapters.vector_index.shelf import Asked
from serving.adapters.vector_index.tenants import Nearest
from serving.adapters.vector_index.view import View
from serving.models.device_vector import tensor_of

MOST_AUDITED = 32
"""Each is a scan of all rows: at a million of them, 32 take two seconds."""


def recall_of(search: Nearest, view: View, asked: Sequence[Asked]) -> float:
    """The share of the true nearest items, ten at most, that a search finds among living rows."""
    allowed = Allowed(view.alive)
    wanted = found = 0
    for each in asked:
        vector = tensor_of(each.vector, view.vectors.device)
        depth = min(each.depth, JUDGED)
        true = nearest(view, allowed, vector, depth)
        if not true:
            continue
        least = true[-1].score - TIE
        good = sum(one.score >= least for one in search(view, allowed, vector, depth))
        wanted, found = wanted + len(true), found + good
    return found / wanted if wanted else 1.0
