"""Turns the fused list into hits, by the steps of a profile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, takewhile
from types import MappingProxyType

from serving.domain.items.records import Item, ItemId
from serving.domain.questions.query import Query
from serving.domain.questions.visibility import visible
from serving.domain.ranking.fusion import Fused
from serving.domain.ranking.ledger import Ledger
from serving.domain.ranking.profile import Profile, Sort
from serving.domain.ranking.repeats import newest_first, newest_of_repeats
from serving.domain.ranking.signals import Traits
from serving.pipeline.retrieval.order import STEPS
from serving.pipeline.retrieval.order.answer import CUT, OF_THE_ANSWER
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.scoring import ADJACENT, RERANK, takers
from serving.pipeline.retrieval.order.step import Step, StepInput
from serving.ports.vector_index import Adjacency


class Ordering:
    """Orders the fused candidates, and says whose rows have to be read.

    Only as many rows are read as the answer and its steps need: all of them if a step may lift any
    candidate, or if it is to be `thorough`, to explain where an item was lost.

    `repeats` are the candidates that say the same as others, the newest of them included; `fused`
    are the candidates without the older ones. `traits`, `closed` and `adjacent` are as in
    `StepInput`.
    """

    def __init__(
        self,
        profile: Profile,
        query: Query,
        fused: Sequence[Fused],
        *,
        repeats: Sequence[Item] = (),
        traits: Mapping[ItemId, Traits] = MappingProxyType({}),
        closed: Mapping[ItemId, Sequence[ItemId]] = MappingProxyType({}),
        adjacent: Mapping[ItemId, Adjacency] = MappingProxyType({}),
        thorough: bool = False,
    ) -> None:
        self.profile = profile
        self.fused = fused
        self.steps = tuple(step for step in STEPS if step.is_in(profile))
        self.vanished: list[ItemId] = []
        self._given = StepInput(
            profile=profile, query=query, traits=traits, closed=closed, adjacent=adjacent
        )
        lifted = set[ItemId]()
        if ADJACENT in self.steps:
            lifted.update(chain.from_iterable(map(takers, adjacent.values())))
        # What is lifted has to be read before the order is known.
        first = [each for each in fused if each.item in lifted]
        self._waiting = [*first, *(each for each in fused if each.item not in lifted)]
        rows = [step.rows for step in self.steps if step.rows is not None]
        some = len(rows) == len(self.steps) and profile.sort is Sort.RELEVANCE
        needed = len(first) + max(profile.limit, *rows)
        self._rows_needed = needed if some and not thorough else None
        newest = newest_of_repeats(repeats)
        self._folded_into = {item: into for item, into in newest.items() if item != into}
        self._folded_before: defaultdict[ItemId, list[Item]] = defaultdict(list)
        for item in newest_first(repeats):
            if item.item in self._folded_into:
                self._folded_before[self._folded_into[item.item]].append(item)
        self._orders: list[list[Hit]] = [[]]
        """The hits before the first step, and after each that has run."""

    # ------------------------------------------------------------ reading rows

    def next_to_load(self) -> list[ItemId]:
        """Returns the items whose rows are needed next; empty when there are enough."""
        if self._rows_needed is None:
            return [fused.item for fused in self._waiting]
        missing = self._rows_needed - (len(self.uncut()) if self._orders[0] else 0)
        if missing <= 0:
            return []
        # Half as many again: some will turn out to be repeats or gone. Equal scores are
        # read together, since their times order them.
        count = missing + missing // 2 + 1
        wanted, rest = self._waiting[:count], self._waiting[count:]
        tied = takewhile(lambda fused: fused.score == wanted[-1].score, rest)
        return [fused.item for fused in chain(wanted, tied)]

    def add_rows(self, batch: Sequence[ItemId], rows: Mapping[ItemId, Item]) -> None:
        """Adds the rows that were read for `next_to_load()`."""
        taken, self._waiting = self._waiting[: len(batch)], self._waiting[len(batch) :]
        scope = self._given.query.scope
        present = [
            self._hit(fused, rows[fused.item])
            for fused in taken
            if fused.item in rows and visible(rows[fused.item], scope)
        ]
        found = {hit.item.item for hit in present}
        self.vanished += [fused.item for fused in taken if fused.item not in found]
        self._orders = [self._given.sorted([*self._orders[0], *present])]

    def _hit(self, fused: Fused, row: Item) -> Hit:
        profile = self.profile
        ledger = Ledger(
            rank_constant=profile.rank_constant, method=profile.fusion, leg_terms=fused.terms
        )
        folded = tuple(self._folded_before.get(fused.item, ()))
        return Hit(item=row, ledger=ledger, folded=folded)

    # ------------------------------------------------------------ reranking

    def head(self) -> list[Hit]:
        """Returns the hits to rerank, never a sensitive one; none if the steps do not rerank."""
        rerank = self.profile.rerank
        if rerank is None or RERANK not in self.steps:
            return []
        return [hit for hit in self._before(RERANK) if not hit.item.sensitive][: rerank.head]

    def add_logits(self, logits: Mapping[ItemId, float]) -> None:
        """Adds the logits of `head()`."""
        self._rerank_anew(replace(self._given, logits=logits))

    def mark_coarse(self, stage: Stage) -> None:
        """Marks all hits as not reranked: the coarse order stands."""
        self._rerank_anew(replace(self._given, not_reranked=stage))

    def _rerank_anew(self, given: StepInput) -> None:
        self._given = given
        del self._orders[self.steps.index(RERANK) + 1 :]

    # ------------------------------------------------------------ looking back

    def without(self, step: Step) -> Ordering:
        """Returns the same candidates and rows without one of the steps, not reranked yet."""
        again = copy(self)
        again.steps = tuple(each for each in self.steps if each is not step)
        again._given = replace(self._given, logits=None, not_reranked=None)
        again._orders = self._orders[:1]
        return again

    def known_logits(self, hits: Sequence[Hit]) -> dict[ItemId, float] | None:
        """Returns the logits of these hits; None if one of them was not reranked."""
        known = self._given.logits
        if known is None or any(hit.item.item not in known for hit in hits):
            return None
        return {hit.item.item: known[hit.item.item] for hit in hits}

    @property
    def folded_into(self) -> dict[ItemId, ItemId]:
        """The items that stand for others which say the same, by these."""
        after = {each.item: hit.item.item for hit in self.uncut() for each in hit.folded}
        return self._folded_into | after

    # ------------------------------------------------------------ the answer

    def uncut(self) -> list[Hit]:
        """Returns all hits in their final order, without a limit."""
        return self._before(CUT)

    def of_tenant(self) -> list[Hit]:
        """Returns all hits as they are before the steps that several tenants share."""
        return self._before(next(step for step in self.steps if step in OF_THE_ANSWER))

    def hits(self) -> tuple[Hit, ...]:
        """Returns the hits, best first, at most the profile's limit."""
        return tuple(self._after(len(self.steps)))

    def _before(self, step: Step) -> list[Hit]:
        return self._after(self.steps.index(step))

    def _after(self, count: int) -> list[Hit]:
        """Returns the hits after that many steps, which run once for the same rows and logits."""
        while len(self._orders) <= count:
            step = self.steps[len(self._orders) - 1]
            self._orders.append(step.run(self._orders[-1], self._given))
        return self._orders[count]
