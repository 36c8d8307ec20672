"""What a search sees of a tenant: which rows a scope accepts, and what facts rest on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from serving.adapters.vector_index.allowed import Allowed
from serving.adapters.vector_index.columns import Mask, Numbers
from serving.adapters.vector_index.instants import ClockTimes, microseconds
from serving.adapters.vector_index.view import ANY_TIME, View
from serving.domain.query import Filter, Scope
from serving.domain.records import ItemId, ItemKind, segment_id

CACHED_MASKS = 32


@dataclass(frozen=True, eq=False)
class Memory:
    """What a search sees of a tenant: its shelves at one moment, and masks made of them.

    `witnesses` are segments without vectors, which only say which facts pass a filter.
    `generation` counts the swaps of lists, of any tenant, before it was published.
    """

    segments: View
    facts: View
    witnesses: View
    segment_slots: dict[ItemId, range]
    witness_slots: dict[ItemId, range]
    numbers: Numbers
    number_count: int
    generation: int
    _cache: dict[object, Allowed] = field(default_factory=dict)

    def view(self, kind: ItemKind) -> View:
        """The rows of one kind."""
        return self.segments if kind is ItemKind.SEGMENT else self.facts

    def allowed(self, kind: ItemKind, scope: Scope, only: Collection[ItemId] | None) -> Allowed:
        """The rows that the scope accepts, of all items or only of these."""
        if kind is ItemKind.SEGMENT:
            accepted = self.accepted_segments(scope.segment_filter, microseconds(scope.as_of))
        else:
            accepted = self._accepted_facts(scope)
        if only is None:
            return accepted
        # By number, which never changes: the shelf's own slots may be ahead of this view.
        numbers = self.numbers.known(only, self.number_count)
        return Allowed(accepted.mask & self.view(kind).numbered(numbers, self.number_count))

    def accepted_segments(self, filter_: Filter, as_of: int) -> Allowed:
        """The segments that pass the filter and were there at the instant."""
        return self._accepted("segments", self.segments, filter_, as_of)

    def accepted_witnesses(self, filter_: Filter, as_of: int) -> Allowed:
        """The same of the segments without vectors."""
        return self._accepted("witnesses", self.witnesses, filter_, as_of)

    def _accepted(self, name: str, view: View, filter_: Filter, as_of: int) -> Allowed:
        passing = self._cached((name, filter_key(filter_)), lambda: view.passing(filter_))
        happened = view.happened_by(as_of)
        return passing if happened is None else Allowed(passing.mask & happened)

    def _accepted_facts(self, scope: Scope) -> Allowed:
        facts, clocks = self.facts, ClockTimes.of(scope.clocks)
        as_of, ends = clocks.as_of, facts.ends(clocks)
        mask = facts.alive & facts.known(clocks)
        mask &= (facts.time("valid_from") <= as_of) & (ends > as_of)
        if scope.filter.event_time != ANY_TIME:
            mask &= facts.valid_within(scope.filter.event_time, ends)
        if replace(scope.filter, event_time=ANY_TIME).restricts:
            of_evidence = replace(scope.segment_filter, event_time=ANY_TIME)
            mask &= self._with_evidence(of_evidence, as_of)
        return Allowed(mask)

    def _with_evidence(self, filter_: Filter, as_of: int) -> Mask:
        """The facts that rest on a segment which passes."""

        def look_up() -> Mask:
            numbers = [
                self.segments.numbers_of(self.accepted_segments(filter_, as_of).mask),
                self.witnesses.numbers_of(self.accepted_witnesses(filter_, as_of).mask),
            ]
            return self.facts.resting_on(np.concatenate(numbers), self.number_count)

        if max(self.segments.latest_event, self.witnesses.latest_event) > as_of:
            return look_up()
        return self._cached(("evidence", filter_key(filter_)), look_up).mask

    def evidence_of(self, fact_slots: Iterable[int], scope: Scope) -> list[tuple[str, ...]]:
        """The ids of each fact's segments that the scope accepts.

        A segment that is not known here is accepted unless the filter restricts.
        """
        filter_, as_of = scope.segment_filter, microseconds(scope.as_of)
        known = [
            (self.segment_slots, self.accepted_segments(filter_, as_of).mask),
            (self.witness_slots, self.accepted_witnesses(filter_, as_of).mask),
        ]
        unknown_pass = not scope.filter.restricts

        def accepts(segment: str) -> bool:
            for slots, accepted in known:
                rows = slots.get(segment_id(segment))
                # The slots may be ahead of this view.
                if rows is not None and rows.start < len(accepted):
                    return bool(accepted[rows.start])
            return unknown_pass

        evidence = self.facts.columns.evidence
        return [tuple(filter(accepts, evidence[slot])) for slot in fact_slots]

    def _cached(self, key: object, make: Callable[[], Mask]) -> Allowed:
        allowed = self._cache.get(key)
        if allowed is None:
            if len(self._cache) >= CACHED_MASKS:
                self._cache.clear()
            allowed = self._cache[key] = Allowed(make())
        return allowed


def filter_key(filter_: Filter) -> object:
    """What distinguishes filters; they hold a mapping, which cannot be hashed."""
    groups = tuple(tuple(group) for group in filter_.term_groups())
    times = (filter_.event_time, filter_.created_at, filter_.updated_at)
    return groups, filter_.min_importance, times
