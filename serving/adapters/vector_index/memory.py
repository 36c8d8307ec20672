"""What a search sees of a tenant: which rows a scope accepts, and what facts rest on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from serving.adapters.vector_index.columns import Mask, Numbers
from serving.adapters.vector_index.instants import ClockTimes, microseconds
from serving.adapters.vector_index.view import ANY_TIME, View
from serving.domain.query import Filter, Scope
from serving.domain.records import ItemId, ItemKind, segment_id

CACHED_MASKS = 32


@dataclass(frozen=True, eq=False)
class Memory:
    """What a search sees of a tenant: both shelves at one moment, and masks made of them."""

    segments: View
    facts: View
    segment_slots: dict[ItemId, range]
    numbers: Numbers
    number_count: int
    _cache: dict[object, Mask] = field(default_factory=dict)

    def view(self, kind: ItemKind) -> View:
        """The rows of one kind."""
        return self.segments if kind is ItemKind.SEGMENT else self.facts

    def allowed(self, kind: ItemKind, scope: Scope, only: Collection[ItemId] | None) -> Mask:
        """The rows that the scope accepts, of all items or only of these."""
        if kind is ItemKind.SEGMENT:
            accepted = self.accepted_segments(scope.segment_filter, microseconds(scope.as_of))
        else:
            accepted = self._accepted_facts(scope)
        if only is None:
            return accepted
        # By number, which never changes: the shelf's own slots may be ahead of this view.
        numbers = self.numbers.known(only, self.number_count)
        return accepted & self.view(kind).numbered(numbers, self.number_count)

    def accepted_segments(self, filter_: Filter, as_of: int) -> Mask:
        """The segments that pass the filter and were there at the instant."""
        passing = self._cached(filter_key(filter_), lambda: self.segments.passing(filter_))
        happened = self.segments.happened_by(as_of)
        return passing if happened is None else passing & happened

    def _accepted_facts(self, scope: Scope) -> Mask:
        facts, clocks = self.facts, ClockTimes.of(scope.clocks)
        as_of, ends = clocks.as_of, facts.ends(clocks)
        mask = facts.alive & facts.known(clocks)
        mask &= (facts.time("valid_from") <= as_of) & (ends > as_of)
        if scope.filter.event_time != ANY_TIME:
            mask &= facts.valid_within(scope.filter.event_time, ends)
        if replace(scope.filter, event_time=ANY_TIME).restricts:
            of_evidence = replace(scope.segment_filter, event_time=ANY_TIME)
            mask &= self._with_evidence(of_evidence, as_of)
        return mask

    def _with_evidence(self, filter_: Filter, as_of: int) -> Mask:
        """The facts that rest on a segment which passes."""

        def look_up() -> Mask:
            accepted = self.accepted_segments(filter_, as_of)
            return self.facts.resting_on(self.segments.numbers_of(accepted), self.number_count)

        if self.segments.latest_event > as_of:
            return look_up()
        return self._cached(("evidence", filter_key(filter_)), look_up)

    def _segment_slot(self, segment: str) -> int | None:
        """The first row of a segment, unless it came after this view."""
        slots = self.segment_slots.get(segment_id(segment))
        return slots.start if slots is not None and slots.start < self.segments.count else None

    def evidence_of(self, fact_slots: Iterable[int], scope: Scope) -> list[tuple[str, ...]]:
        """The ids of each fact's segments that the scope accepts.

        A segment without a vector is not known here; it is accepted unless the
        filter restricts.
        """
        accepted = self.accepted_segments(scope.segment_filter, microseconds(scope.as_of))
        unknown_pass = not scope.filter.restricts

        def accepts(segment: str) -> bool:
            slot = self._segment_slot(segment)
            return unknown_pass if slot is None else bool(accepted[slot])

        evidence = self.facts.columns.evidence
        return [tuple(filter(accepts, evidence[slot])) for slot in fact_slots]

    def _cached(self, key: object, make: Callable[[], Mask]) -> Mask:
        mask = self._cache.get(key)
        if mask is None:
            if len(self._cache) >= CACHED_MASKS:
                self._cache.clear()
            mask = self._cache[key] = make()
        return mask


def filter_key(filter_: Filter) -> object:
    """What distinguishes filters; they hold a mapping, which cannot be hashed."""
    groups = tuple(tuple(group) for group in filter_.term_groups())
    times = (filter_.event_time, filter_.created_at, filter_.updated_at)
    return groups, filter_.min_importance, times
