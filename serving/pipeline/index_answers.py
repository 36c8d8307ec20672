"""What indexes say, as one answer or without an error."""

from __future__ import annotations

from collections.abc import Sequence

from serving.domain.errors import TriviumError
from serving.domain.ranking import Candidate, best_first
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.ports import IndexAnswer, IndexStatus, VectorIndex


def merged(answers: Sequence[IndexAnswer], depth: int) -> IndexAnswer:
    """The `depth` nearest of all, each by its best score, and equal scores by name.

    Where each answer has the `depth` nearest of a share of the rows, this is exactly what one
    search of them all finds: what is among the first of all is among the first of its share.

    Args:
        answers: At least one.
        depth: The most candidates.
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
        twins=tuple(sorted({twin for answer in answers for twin in answer.twins})),
    )


async def status_of(index: VectorIndex, tenant: TenantName | None = None) -> IndexStatus:
    """The state of an index; of one that cannot say, that it is not ready and why."""
    try:
        return await index.status(tenant)
    except (TriviumError, TimeoutError) as error:
        reason = str(error) or "it did not answer in time"
        return IndexStatus(ready=False, vector_count=0, epoch=0, reason=reason)
