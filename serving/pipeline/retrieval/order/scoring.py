"""The steps that give each hit its score: folding, adjacent turns, importance, age, reranking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, takewhile
from typing import TypeVar

from serving.domain.items.records import Fact, ItemId, Segment, time_of
from serving.domain.ranking.fusion import Fused
from serving.domain.ranking.ledger import AdjacentTerm, FusionMethod, RerankTerm
from serving.domain.ranking.priors import ImportanceStyle, decay_term, importance_term
from serving.domain.ranking.profile import Profile
from serving.domain.ranking.repeats import newest_first, newest_of_repeats
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.order.step import Step, StepInput, importance_of
from serving.ports.vector_index import Adjacency

GIVERS = 10
"""The number of first hits that give to the turns next to them."""

SETTLED = 5
"""The number of first hits that take nothing: a share brings others up to them, and leaves the
order in which the legs have them."""

FACT_KIND = "relationship"
"""The kind under which a fact ages."""

Scored = TypeVar("Scored", Fused, Hit)


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


class Adjacent(Step):
    """Adds a share of the score of each of the first hits to the turns next to it that ask nothing.

    Those that are among the first themselves stay as they are.

    What answers is often said in the turn before or after the one that has the words. The turns
    are candidates: what no leg found would hardly get a place by a share alone.
    """

    loss = Loss.DISPLACED
    left_out = "without shares for adjacent turns"
    rows = GIVERS

    def is_in(self, profile: Profile) -> bool:
        return profile.adjacent > 0

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        terms: defaultdict[ItemId, tuple[AdjacentTerm, ...]] = defaultdict(tuple)
        for hit in first_of(hits, GIVERS):
            for item in takers(given.adjacent.get(hit.item.item, Adjacency())):
                terms[item] += (AdjacentTerm(given.profile.adjacent, hit.score, hit.item.item),)
        for hit in first_of(hits, SETTLED):
            terms.pop(hit.item.item, None)
        return given.sorted(
            replace(hit, ledger=replace(hit.ledger, adjacent=terms[hit.item.item]))
            if hit.item.item in terms
            else hit
            for hit in hits
        )


def first_of(ranked: Sequence[Scored], count: int) -> list[Scored]:
    """The first of a list, best first; all that have the score of the last of them."""
    least = ranked[min(count, len(ranked)) - 1].score if ranked else 0.0
    return list(takewhile(lambda one: one.score >= least, ranked))


def takers(adjacent: Adjacency) -> list[ItemId]:
    """The turns that ask nothing."""
    both = (adjacent.before, adjacent.after)
    return [turn.item for turn in both if turn is not None and not turn.asks]


class Importance(Step):
    """Multiplies scores by importance, or lifts what is important."""

    loss = Loss.LESS_IMPORTANT
    left_out = "without weighing by importance"

    def is_in(self, profile: Profile) -> bool:
        return profile.importance.style is not ImportanceStyle.OFF

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        profile = given.profile

        def weighed(hit: Hit) -> Hit:
            term = importance_term(
                profile.importance, importance_of(hit.item), profile.rank_constant
            )
            return replace(hit, ledger=replace(hit.ledger, importance=term))

        return given.sorted(map(weighed, hits))


class Decay(Step):
    """Multiplies scores by a factor that falls with age."""

    loss = Loss.DECAYED
    left_out = "without decay by age"

    def is_in(self, profile: Profile) -> bool:
        return profile.decay is not None

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        prior, as_of = given.profile.decay, given.query.scope.as_of
        assert prior is not None, "only run for a profile with decay; this is a bug"

        def aged(hit: Hit) -> Hit:
            item = hit.item
            fresh = prior.facts_are_fresh and isinstance(item, Fact)
            kind = item.kind if isinstance(item, Segment) else FACT_KIND
            since = as_of if fresh else time_of(item)
            term = decay_term(prior, kind=kind, since=since, as_of=as_of)
            return replace(hit, ledger=replace(hit.ledger, decay=term))

        return given.sorted(map(aged, hits))


class Rerank(Step):
    """Mixes the scores of the head with a reranker's; the other hits follow in coarse order."""

    loss = Loss.RERANKED_DOWN
    left_out = "before reranking"

    def is_in(self, profile: Profile) -> bool:
        return profile.rerank is not None

    def run(self, hits: Sequence[Hit], given: StepInput) -> list[Hit]:
        profile, logits = given.profile, given.logits
        assert profile.rerank is not None, "only run for a profile that reranks; this is a bug"
        if logits is None:
            return [replace(hit, stage=given.not_reranked) for hit in hits]
        scale = _scale(hits, profile.fusion)
        reranked, coarse = [], []
        for hit in hits:
            if (logit := logits.get(hit.item.item)) is None:
                coarse.append(replace(hit, stage=Stage.COARSE))
                continue
            term = RerankTerm(logit=logit, weight=profile.rerank.weight, scale=scale)
            ledger = replace(hit.ledger, rerank=term)
            reranked.append(replace(hit, stage=Stage.RERANKED, ledger=ledger))
        return [*given.sorted(reranked), *coarse]


def _scale(hits: Sequence[Hit], fusion: FusionMethod) -> float:
    """Returns the divisor of coarse scores before they are mixed with probabilities.

    Cosines already have that scale; sums of reciprocal ranks do not.
    """
    if fusion is FusionMethod.SCORE:
        return 1.0
    return max((hit.score for hit in hits), default=1.0) or 1.0


ADJACENT = Adjacent()
RERANK = Rerank()
