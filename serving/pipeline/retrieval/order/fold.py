"""Folding: of the items in which a speaker says the same, the newest stands for all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from serving.domain.items.records import ItemId
from serving.domain.ranking.profile import Profile
from serving.domain.ranking.repeats import newest_first, newest_of_repeats
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput


class Fold(Step):
    """Shows one hit for each group of repeats: the newest, with the terms of the best."""

    loss = Loss.FOLDED
    left_out = "without folding of repeats"
    rows = 0

    def is_in(self, profile: Profile) -> bool:
        return profile.fold_repeats

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        newest = newest_of_repeats(hit.item for hit in hits)
        if not newest:
            return list(hits)
        groups: defaultdict[ItemId, list[Hit]] = defaultdict(list)
        for hit in hits:
            groups[newest.get(hit.item.item, hit.item.item)].append(hit)
        return given.sorted(map(_as_one, groups.values()))


def _as_one(group: Sequence[Hit]) -> Hit:
    """One hit for a group, whose best comes first."""
    if len(group) == 1:
        return group[0]
    newest, *older = newest_first(
        chain((hit.item for hit in group), *(hit.folded for hit in group))
    )
    return replace(group[0], item=newest, folded=tuple(older))
