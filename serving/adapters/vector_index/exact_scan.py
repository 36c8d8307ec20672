"""Reading every allowed row: the scan in float16, the head again in float32."""

from __future__ import annotations

from typing import NamedTuple

import torch

from serving.adapters.vector_index.allowed import Allowed
from serving.adapters.vector_index.columns import Slots
from serving.adapters.vector_index.view import View
from serving.domain.records import ItemId

LEAST_HEAD = 40
"""So many rows at least are scored again; with 40, no measurement lost one of the true 10."""

GATHER_BELOW = 0.1
"""If a smaller share of the rows is allowed, those are gathered and the rest is not read."""


class Found(NamedTuple):
    """An item by its best row."""

    score: float
    item: ItemId
    row: int


def nearest(view: View, allowed: Allowed, vector: torch.Tensor, depth: int) -> list[Found]:
    """The `depth` nearest items, best first, of all allowed rows."""
    scores, chosen = _scan(view, allowed, vector)
    head = min(len(scores), max(LEAST_HEAD, 2 * depth))
    while True:
        best = torch.topk(scores, head).indices
        rows = best if chosen is None else chosen[best]
        found = best_rows(view, rows.cpu().numpy(), vector)
        # An item may fill the head with its windows; then the head was too short.
        if len(found) >= depth or head == len(scores):
            return found[:depth]
        head = min(len(scores), 2 * head)


def _scan(
    view: View, allowed: Allowed, vector: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The scores of the allowed rows in float16 precision, and which these are; None if all.

    Returns:
        float32 (n,) and int64 (n,). To bring so many numbers to a GPU takes longer than the scan.
    """
    vectors, query = view.vectors, vector.to(torch.float16)
    if allowed.count == view.count:
        return (vectors @ query).float(), None
    chosen = allowed.slots_on(vectors.device)
    if len(chosen) < GATHER_BELOW * view.count:
        return (vectors[chosen] @ query).float(), chosen
    return (vectors @ query).float()[chosen], chosen


def head_of_tail(view: View, allowed: Allowed, vector: torch.Tensor, most: int) -> Slots:
    """The nearest allowed rows that no lists have, at most so many."""
    slots = allowed.slots(view.covered)
    if len(slots) <= most:
        return slots
    scores = view.vectors[view.covered :] @ vector.to(torch.float16)
    scores = scores[torch.from_numpy(slots - view.covered).to(scores.device)]
    head: Slots = slots[torch.topk(scores.float(), most).indices.cpu().numpy()]
    return head


def best_rows(view: View, rows: Slots, vector: torch.Tensor) -> list[Found]:
    """Scores rows in float32 and keeps the best of each item; equal scores by id.

    Scores are rounded to 1e-6: the last bits of a product depend on where its row
    lies, and equal vectors must tie.
    """
    vectors = view.columns.vectors
    chosen = vectors[torch.from_numpy(rows).to(vectors.device)].float()
    scored = [
        Found(round(score, 6), view.columns.items[row], row)
        for score, row in zip((chosen @ vector).tolist(), rows.tolist(), strict=True)
    ]
    best: dict[ItemId, Found] = {}
    for found in sorted(scored, key=lambda found: (-found.score, found.item)):
        best.setdefault(found.item, found)
    return list(best.values())
