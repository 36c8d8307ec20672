"""Merges the answers of several searches, and reads the status of an index without raising."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from serving.domain.errors import DependencyError, TriviumError
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.ports.vector_index import IndexAnswer, IndexStatus, VectorIndex


def merged(answers: Sequence[IndexAnswer], depth: int) -> IndexAnswer:
    """Returns the `depth` nearest of all, each by its best score; equal scores are ordered by name.

    If each answer has the `depth` nearest of its shard, the result is exactly that of one search
    over all rows: what is among the first of all rows is among the first of its shard.
    """
    best: dict[ItemId, Candidate] = {}
    for candidate in best_first(each for answer in answers for each in answer.candidates):
        best.setdefault(candidate.item, candidate)
    nearest = list(best.values())[:depth]
    facts = {candidate.item.id for candidate in nearest if candidate.item.kind is ItemKind.FACT}
    return IndexAnswer(
        nearest,
        epoch=min(answer.epoch for answer in answers),
        stale=any(answer.stale for answer in answers),
        evidence={
            fact: ids for each in answers for fact, ids in each.evidence.items() if fact in facts
        },
        embedding_s=max(answer.embedding_s for answer in answers),
        unsearched="; ".join(dict.fromkeys(a.unsearched for a in answers if a.unsearched)),
    )


STATUS_S = 0.5
"""The timeout of the state of an index: no replica may be there to give it."""


async def status_of(index: VectorIndex, tenant: TenantName | None = None) -> IndexStatus:
    """Returns the state of an index; if it cannot be read, not ready with the reason."""
    try:
        async with asyncio.timeout(STATUS_S):
            return await index.status(tenant)
    except (TriviumError, TimeoutError) as error:
        reason = error.why if isinstance(error, DependencyError) else str(error)
        reason = reason or "no answer in time"
        return IndexStatus(ready=False, vector_count=0, epoch=0, reason=reason)
