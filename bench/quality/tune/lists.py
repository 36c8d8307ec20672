"""The deep list of each leg for a question, and its list under a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from bench.harness.collection import Query
from serving.domain.items.records import Item, ItemId, TenantName, segment_id
from serving.domain.questions.query import Scope
from serving.domain.ranking.profile import LegSpec, Profile, Yields
from serving.domain.ranking.ranked_list import (
    Candidate,
    RankedList,
    above_floor,
    depth_to_read,
    within_depth,
)
from serving.pipeline.retrieval.legs import FACTS, evidence_in_order, seeds_of
from serving.pipeline.retrieval.ordering import visible
from serving.ports.vector_index import IndexAnswer

Seeds = tuple[ItemId, ...]
Rows = Mapping[ItemId, Item]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the legs find for one question, whatever a profile takes of it.

    Args:
        set: The collection.
        query: The question.
        as_of: Its clock.
        rows: Everything that its tenant stores and that can be a hit.
        deep: The candidates of each leg that stands by itself, best first; of the leg `facts`
            facts.
        evidence: The segments that each fact among them rests on.
        led_on: Those of each leg that leads on, by the segments it begins with.
    """

    set: str
    query: Query
    as_of: datetime
    rows: Rows
    deep: Mapping[str, Sequence[Candidate]]
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    led_on: Mapping[str, Mapping[Seeds, Sequence[Candidate]]] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        """What may be shown."""
        return Scope(tenant=TenantName(self.query.tenant), as_of=self.as_of)

    @property
    def items(self) -> Iterator[ItemId]:
        """Everything that any profile can bring; some of it more than once."""
        for of_leg in (
            *self.deep.values(),
            *chain(*(each.values() for each in self.led_on.values())),
        ):
            yield from (candidate.item for candidate in of_leg)
        yield from map(segment_id, chain.from_iterable(self.evidence.values()))


class Lists:
    """The lists of one question, each made once.

    A shorter list is the head of a longer one, and a floor cuts off its end; what the leg `facts`
    gives is made of its facts by the rule that serves.
    """

    def __init__(self, found: Found) -> None:
        self._found = found
        self._made: dict[object, RankedList] = {}
        self._seeds: dict[object, Seeds] = {}

    def of(self, profile: Profile) -> list[RankedList]:
        """The list of each leg that the profile asks, in its order."""
        made: dict[str, RankedList] = {}
        for spec in profile.legs:
            if spec.weight:
                made[spec.name] = self._of_leg(spec, profile, list(made.values()))
        return list(made.values())

    def seeds(self, spec: LegSpec, before: Sequence[RankedList]) -> Seeds:
        """What a leg that leads on begins with.

        Args:
            spec: The leg.
            before: The lists of those before it.
        """
        assert spec.expansion is not None, "asked of legs that lead on; this is a bug"
        by_leg = {ranked.leg: ranked for ranked in before if ranked.leg in spec.expansion.found_by}
        # Lists are made once, so which they are says what is in them.
        key = (spec.expansion, *map(id, by_leg.values()))
        if key not in self._seeds:
            nothing: dict[str, Sequence[Candidate]] = dict.fromkeys(spec.expansion.found_by, ())
            found = {leg: ranked.candidates for leg, ranked in by_leg.items()}
            self._seeds[key] = tuple(seeds_of(spec.expansion, nothing | found))
        return self._seeds[key]

    def _of_leg(self, spec: LegSpec, profile: Profile, before: Sequence[RankedList]) -> RankedList:
        seeds = None if spec.expansion is None else self.seeds(spec, before)
        depth, style = spec.depth_for(profile.limit), profile.rank_style
        key = (spec.name, depth, style, spec.floor, spec.yields, seeds)
        if key not in self._made:
            read = self._read(spec, self._candidates(spec.name, seeds), depth_to_read(depth, style))
            within = within_depth(read, depth, style)
            self._made[key] = RankedList(spec.name, tuple(within))
        return self._made[key]

    def _candidates(self, leg: str, seeds: Seeds | None) -> Sequence[Candidate]:
        if seeds is None:
            return self._found.deep[leg]
        return self._found.led_on[leg][seeds] if seeds else ()

    def _read(
        self, spec: LegSpec, candidates: Sequence[Candidate], depth: int
    ) -> Sequence[Candidate]:
        kept, _ = above_floor(candidates[:depth], spec.floor)
        if spec.name == FACTS and spec.yields is Yields.EVIDENCE:
            answer = IndexAnswer(kept, epoch=0, evidence=dict(self._evidence(kept)))
            kept = evidence_in_order(kept, answer)[:depth]
        return kept

    def _evidence(self, facts: Sequence[Candidate]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The segments of each fact but those that the question's clock hides, as an index does."""
        scope, rows = self._found.scope, self._found.rows
        for fact in facts:
            ids = self._found.evidence[fact.item.id]
            rest_on = ((id_, rows.get(segment_id(id_))) for id_ in ids)
            yield (
                fact.item.id,
                tuple(id_ for id_, row in rest_on if row is None or visible(row, scope)),
            )
