"""Turns the fused list into hits: priors, repeats, reranking, diversity, the cut.

No step depends on a profile's name: what a profile leaves unset is not done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import accumulate, chain, takewhile

from serving.domain.items.records import (
    DEFAULT_IMPORTANCE,
    Fact,
    Item,
    ItemId,
    Segment,
    TenantName,
    time_of,
)
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.current import HEAD, Statement, current_first
from serving.domain.ranking.diversity import maximal_marginal_relevance
from serving.domain.ranking.fusion import Fused
from serving.domain.ranking.ledger import (
    DecayTerm,
    DiversityTerm,
    FusionMethod,
    Ledger,
    LegTerm,
    RerankTerm,
)
from serving.domain.ranking.priors import ImportanceStyle, decay_term, importance_term
from serving.domain.ranking.profile import Profile, Sort
from serving.domain.ranking.repeats import newest_first, newest_of_repeats
from serving.pipeline.retrieval.legs import ContextLeg, DenseLeg, FactsLeg

FACT_KIND = "relationship"
"""The kind under which a fact ages."""

LEGS_BY_MEANING = frozenset({DenseLeg.name, ContextLeg.name, FactsLeg.name})
"""What these find is near to the question, whatever words it has."""


class Stage(StrEnum):
    """Whether a hit was reranked, if the profile reranks."""

    RERANKED = "reranked"
    COARSE = "coarse"
    """It lies beyond the head or is sensitive, and follows in coarse order; or reranking would have
    taken longer than the time left, and the coarse order stands."""
    COARSE_FALLBACK = "coarse_fallback"
    """Nothing could be reranked; the coarse order stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An item of the answer, with the ledger that explains its place.

    `score` is that of the ledger, before diversification; `stage` is None if the profile does not
    rerank. `folded` says the same as the item, the newest first; all are older than it.
    `outdated_by` is the later statement about the same thing that took its place.
    """

    item: Item
    ledger: Ledger
    folded: tuple[Item, ...] = ()
    stage: Stage | None = None
    outdated_by: ItemId | None = None
    score: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", self.ledger.score)


class Ordering:
    """Orders the fused candidates, and says whose rows have to be read.

    If the fused order is final, only as many rows are read as the answer needs. Priors, reranking
    and diversity may lift any candidate, so with them all rows are read, and also if it is to be
    `thorough`, to explain where an item was lost.

    `repeats` are the candidates that say the same as others, the newest of them included; `fused`
    are the candidates without the older ones.
    """

    def __init__(
        self,
        profile: Profile,
        query: Query,
        fused: Sequence[Fused],
        *,
        repeats: Sequence[Item] = (),
        thorough: bool = False,
    ) -> None:
        self.profile = profile
        self.query = query
        self.scope = query.scope
        self.fused = fused
        self._repeats = repeats
        self._rows: dict[ItemId, Item] = {}
        self._logits: Mapping[ItemId, float] | None = None
        self._waiting = list(fused)
        self._reads_all = thorough or not _fused_order_is_final(profile)
        self._hits: list[Hit] = []
        newest = newest_of_repeats(repeats)
        self.folded_into = {item: into for item, into in newest.items() if item != into}
        self._folded_before: defaultdict[ItemId, list[Item]] = defaultdict(list)
        for item in newest_first(repeats):
            if item.item in self.folded_into:
                self._folded_before[self.folded_into[item.item]].append(item)
        self.vanished: list[ItemId] = []

    @property
    def tenant(self) -> TenantName:
        return self.scope.tenant

    # ------------------------------------------------------------ reading rows

    def next_to_load(self) -> list[ItemId]:
        """Returns the items whose rows are needed next; empty when there are enough."""
        if self._reads_all:
            return [fused.item for fused in self._waiting]
        # What is rearranged does not depend on the limit.
        least = HEAD if _is_rearranged(self.profile) else 0
        missing = max(self.profile.limit, least) - len(self._hits)
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
        self._rows.update(rows)
        taken, self._waiting = self._waiting[: len(batch)], self._waiting[len(batch) :]
        present = [
            Hit(
                item=rows[fused.item],
                ledger=_ledger(self.profile, self.scope, fused.terms, rows[fused.item]),
                folded=tuple(self._folded_before.get(fused.item, ())),
            )
            for fused in taken
            if fused.item in rows and visible(rows[fused.item], self.scope)
        ]
        found = {hit.item.item for hit in present}
        self.vanished += [fused.item for fused in taken if fused.item not in found]
        self._hits = sorted(self._folded([*self._hits, *present]), key=self._place)

    def _place(self, hit: Hit) -> tuple[object, ...]:
        """Orders hits, equal ones by time."""
        since = time_of(hit.item).timestamp()
        match self.profile.sort:
            case Sort.RELEVANCE:
                return (-hit.score, since, hit.item.item)
            case Sort.IMPORTANCE:
                return (-hit.score, -_importance(hit.item), since, hit.item.item)
            case Sort.RECENCY:
                return (-since, -hit.score, hit.item.item)

    def _folded(self, hits: list[Hit]) -> list[Hit]:
        """One hit for each group of repeats: the newest, with the terms of the best."""
        newest = newest_of_repeats(hit.item for hit in hits) if self.profile.fold_repeats else {}
        if not newest:
            return hits
        groups: defaultdict[ItemId, list[Hit]] = defaultdict(list)
        for hit in hits:
            groups[newest.get(hit.item.item, hit.item.item)].append(hit)
        return [self._as_one(group) if len(group) > 1 else group[0] for group in groups.values()]

    def _as_one(self, group: Sequence[Hit]) -> Hit:
        newest, *older = newest_first(
            chain((hit.item for hit in group), *(hit.folded for hit in group))
        )
        self.folded_into.update((each.item, newest.item) for each in older)
        best = min(group, key=self._place)
        ledger = _ledger(self.profile, self.scope, best.ledger.leg_terms, newest)
        return replace(best, item=newest, ledger=ledger, folded=tuple(older))

    # ------------------------------------------------------------ reranking

    def head(self) -> list[Hit]:
        """Returns the hits to rerank; never a sensitive one."""
        if self.profile.rerank is None:
            return []
        return [hit for hit in self._hits if not hit.item.sensitive][: self.profile.rerank.head]

    def add_logits(self, logits: Mapping[ItemId, float]) -> None:
        """Adds the logits of `head()`; the other hits follow in coarse order."""
        rerank = self.profile.rerank
        assert rerank is not None, "only called for a profile that reranks; this is a bug"
        self._logits = logits
        scale = self._scale()
        reranked, coarse = [], []
        for hit in self._hits:
            if (logit := logits.get(hit.item.item)) is None:
                coarse.append(replace(hit, stage=Stage.COARSE))
                continue
            term = RerankTerm(logit=logit, weight=rerank.weight, scale=scale)
            ledger = replace(hit.ledger, rerank=term)
            reranked.append(replace(hit, stage=Stage.RERANKED, ledger=ledger))
        self._hits = [*sorted(reranked, key=self._place), *coarse]

    def mark_coarse(self, stage: Stage) -> None:
        """Marks all hits as not reranked: the coarse order stands."""
        self._hits = [replace(hit, stage=stage) for hit in self._hits]

    def _scale(self) -> float:
        """Returns the divisor of coarse scores before they are mixed with probabilities.

        Cosines already have that scale; sums of reciprocal ranks do not.
        """
        if self.profile.fusion is FusionMethod.SCORE:
            return 1.0
        return max((hit.score for hit in self._hits), default=1.0) or 1.0

    # ------------------------------------------------------------ looking back

    def with_profile(self, profile: Profile) -> Ordering:
        """Returns the same candidates and rows under another profile, not reranked yet."""
        again = Ordering(profile, self.query, self.fused, repeats=self._repeats, thorough=True)
        again.add_rows(again.next_to_load(), self._rows)
        return again

    def known_logits(self, hits: Sequence[Hit]) -> dict[ItemId, float] | None:
        """Returns the logits of these hits; None if one of them was not reranked."""
        known = self._logits
        if known is None or any(hit.item.item not in known for hit in hits):
            return None
        return {hit.item.item: known[hit.item.item] for hit in hits}

    def displaced_hits(self) -> dict[ItemId, Hit]:
        """Returns the hits that lost their place to a reserved one, by the item that lost it."""
        return _with_reserved(self.uncut(), self.profile)[1]

    # ------------------------------------------------------------ the answer

    def uncut(self) -> list[Hit]:
        """Returns all hits in their final order, without a limit."""
        hits = self._hits
        if _is_rearranged(self.profile):
            hits = _current_first(self.query.text, hits)
        return _diversified(hits, self.profile)

    def hits(self) -> tuple[Hit, ...]:
        """Returns the hits, best first, at most the profile's limit."""
        return tuple(_with_reserved(self.uncut(), self.profile)[0])


def _fused_order_is_final(profile: Profile) -> bool:
    return (
        profile.importance.style is ImportanceStyle.OFF
        and profile.decay is None
        and profile.rerank is None
        and profile.diversity is None
        and profile.sort is Sort.RELEVANCE
        and not any(leg.reserved for leg in profile.legs)
    )


def _ledger(profile: Profile, scope: Scope, terms: tuple[LegTerm, ...], item: Item) -> Ledger:
    return Ledger(
        rank_constant=profile.rank_constant,
        method=profile.fusion,
        leg_terms=terms,
        importance=importance_term(profile.importance, _importance(item), profile.rank_constant),
        decay=_decay(profile, item, scope.as_of),
    )


def _decay(profile: Profile, item: Item, as_of: datetime) -> DecayTerm | None:
    if profile.decay is None:
        return None
    fresh = profile.decay.facts_are_fresh and isinstance(item, Fact)
    since = as_of if fresh else time_of(item)
    kind = item.kind if isinstance(item, Segment) else FACT_KIND
    return decay_term(profile.decay, kind=kind, since=since, as_of=as_of)


def _is_rearranged(profile: Profile) -> bool:
    return profile.current_first and profile.sort is Sort.RELEVANCE


def _current_first(question: str, hits: Sequence[Hit]) -> list[Hit]:
    # A hit that was not reranked follows those that were, whatever its score.
    scores = accumulate((hit.score for hit in hits[:HEAD]), min)
    statements = [
        Statement(
            _text(hit.item),
            time_of(hit.item),
            score,
            is_near=any(term.leg in LEGS_BY_MEANING for term in hit.ledger.leg_terms),
            is_turn=isinstance(hit.item, Segment) and hit.item.speaker != "",
        )
        for hit, score in zip(hits, scores, strict=False)
    ]
    arranged = current_first(question, statements)
    newer = {old: hits[new].item.item for old, new in arranged.outdated_by.items()}
    head = [
        replace(hits[place], outdated_by=newer[place]) if place in newer else hits[place]
        for place in arranged.order
    ]
    return [*head, *hits[HEAD:]]


def _diversified(hits: list[Hit], profile: Profile) -> list[Hit]:
    diversity = profile.diversity
    if diversity is None or not hits:
        return hits
    pool = max(diversity.pool, profile.limit)
    # Not always the first hit's: hits that were not reranked come last, whatever their score.
    best = max(hit.score for hit in hits[:pool])
    whole = best if diversity.relative and best > 0 else 1.0
    chosen = maximal_marginal_relevance(
        [_text(hit.item) for hit in hits],
        [hit.score / whole for hit in hits],
        trade_off=diversity.trade_off,
        pool=pool,
    )
    head = []
    for one in chosen:
        closest = None if one.closest is None else hits[one.closest].item.item
        values = (one.relevance, one.max_similarity, one.value)
        term = DiversityTerm(diversity.trade_off, *values, closest)
        hit = hits[one.place]
        head.append(replace(hit, ledger=replace(hit.ledger, diversity=term)))
    return head + hits[pool:]


def _with_reserved(hits: Sequence[Hit], profile: Profile) -> tuple[list[Hit], dict[ItemId, Hit]]:
    """Cuts to the limit; the last hits make room for those with a reserved place.

    Returns the answer and, for each hit that was displaced, the hit that took its place.
    """
    reserved = {
        item: leg.name
        for leg in profile.legs
        if leg.reserved
        for item in _best_of(leg.name, leg.reserved, hits)
    }
    if not reserved:
        return list(hits[: profile.limit]), {}
    answer = [hit.item.item for hit in hits[: profile.limit]]
    taken: dict[ItemId, ItemId] = {}
    for item in [item for item in reserved if item not in answer]:
        give_way = [place for place, there in enumerate(answer) if there not in reserved]
        if not give_way:
            break
        taken[answer[give_way[-1]]] = item
        answer[give_way[-1]] = item
    shown = {hit.item.item: hit for hit in hits if hit.item.item in answer}
    for item in taken.values():
        ledger = replace(shown[item].ledger, reserved_by=reserved[item])
        shown[item] = replace(shown[item], ledger=ledger)
    return list(shown.values()), {item: shown[by] for item, by in taken.items()}


def _best_of(leg: str, count: int, hits: Sequence[Hit]) -> list[ItemId]:
    ranks = {
        hit.item.item: term.rank for hit in hits for term in hit.ledger.leg_terms if term.leg == leg
    }
    return sorted(ranks, key=lambda item: (ranks[item], item))[:count]


def visible(item: Item, scope: Scope) -> bool:
    """Returns whether a stored row may be shown; the legs have checked it on their own copies."""
    if isinstance(item, Segment):
        return item.event_time <= scope.as_of and scope.segment_filter.accepts(item)
    return (
        item.id not in scope.filter.none_of.fact_ids
        and item.holds(scope.clocks)
        and _holds_within(item, scope)
    )


def hidden_by(item: Item, scope: Scope, evidence: Sequence[Segment]) -> str:
    """Returns why the scope hides a stored item; empty if it does not.

    One of the `evidence` segments of a fact must pass the filter.
    """
    if isinstance(item, Segment):
        if item.event_time > scope.as_of:
            return f"as_of: it was said later, at {item.event_time.isoformat()}"
        if scope.known_at and item.created_at and scope.known_at < item.created_at:
            return f"known_at: it was recorded later, at {item.created_at.isoformat()}"
        return _named([f"filter.{name}" for name in scope.filter.failed_by(item)])
    if reason := _why_not_held(item, scope):
        return reason
    if not _holds_within(item, scope):
        return _named(["filter.event_time"])
    if item.id in scope.filter.none_of.fact_ids:
        return _named(["filter.none_of"])
    of_evidence = scope.filter.of_evidence
    if not of_evidence.restricts or any(map(of_evidence.accepts, evidence)):
        return ""
    if not evidence and not of_evidence.selects:
        return ""
    failed = [name for segment in evidence for name in of_evidence.failed_by(segment)]
    return _named([f"filter.{name}" for name in dict.fromkeys(failed)]) or "filter: no evidence"


def _named(fields: Sequence[str]) -> str:
    return f"{' and '.join(fields)}: it does not pass" if fields else ""


def _holds_within(fact: Fact, scope: Scope) -> bool:
    return scope.filter.event_time.overlaps(fact.valid_from, fact.held_until(scope.clocks))


def _why_not_held(fact: Fact, scope: Scope) -> str:
    if fact.holds(scope.clocks):
        return ""
    if scope.known_at is not None and fact.recorded_at > scope.known_at:
        return f"known_at: it was recorded later, at {fact.recorded_at.isoformat()}"
    known = (closing for closing in fact.closings if closing.known_by(scope.clocks))
    closed = [closing.by for closing in known if closing.at <= scope.as_of]
    if closed and replace(fact, closings=()).holds(scope.clocks):
        return f"as_of: the fact does not hold then, it was closed by {closed[0]}"
    if fact.retracted_at is not None and not scope.clocks.know(fact.recorded_at, fact.retracted_at):
        return f"known_at: it was retracted, at {fact.retracted_at.isoformat()}"
    return "as_of: the fact does not hold then"


def _importance(item: Item) -> float:
    return item.importance if isinstance(item, Segment) else DEFAULT_IMPORTANCE


def _text(item: Item) -> str:
    return item.text if isinstance(item, Segment) else item.statement
