"""A query: the question, its scope, its filters and its clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import TypeAlias

from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import Segment, TenantName
from serving.domain.items.text import name_key
from serving.domain.items.validity import Clocks, earliest
from serving.domain.questions.filters import (
    OF_SESSION,
    TIMES,
    AllOf,
    AnyOf,
    Condition,
    HasId,
    HasTerm,
    IsImportant,
    NoneOf,
    Within,
    date_within,
    has_label,
    label_term,
    number_within,
    passes,
)

_INSTANT = timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC) - _INSTANT


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The half-open interval [`start`, `end`); None is open."""

    start: datetime | None = None
    end: datetime | None = None

    def __contains__(self, instant: datetime) -> bool:
        return (self.start is None or self.start <= instant) and (
            self.end is None or instant < self.end
        )

    def shared_with(self, other: TimeRange) -> TimeRange:
        """The interval that both have in common; empty if its end is not after its start."""
        starts = [start for start in (self.start, other.start) if start is not None]
        return TimeRange(max(starts, default=None), earliest(self.end, other.end))

    def overlaps(self, start: datetime | None, end: datetime | None) -> bool:
        """Whether it has an instant in common with the half-open interval [start, end)."""
        begins_in_time = self.end is None or start is None or start < self.end
        ends_late_enough = self.start is None or end is None or end > self.start
        return begins_in_time and ends_late_enough


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The numbers from `least` to `most`, both included; None is open."""

    least: float | None = None
    most: float | None = None


LabelCondition: TypeAlias = tuple[str, ...] | NumberRange | TimeRange | bool
"""A condition on a label: one of the values, a number or a date in a range, existence or
absence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Items that a filter leaves out: those that match a value of any field."""

    kinds: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Of segments."""
    fact_ids: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    """Of segments: what passes one of them is left out."""

    @property
    def conditions(self) -> list[Condition]:
        """The conditions of which a segment may pass none."""
        terms = (
            *(f"k:{kind}" for kind in self.kinds),
            *(f"s:{name_key(speaker)}" for speaker in self.speakers),
            *(f"{OF_SESSION}{session}" for session in self.sessions),
        )
        return [
            *([HasTerm(terms)] if terms else []),
            *([HasId(self.ids)] if self.ids else []),
            *(each.condition for each in self.filters),
        ]


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Restricts the segments to search; empty fields do not restrict.

    A segment must pass each filter of `all_of`, and one of `any_of`.
    """

    kinds: tuple[str, ...] = ()
    labels: Mapping[str, LabelCondition] = field(default_factory=dict)
    speakers: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    min_importance: float = 0.0
    event_time: TimeRange = TimeRange()
    created_at: TimeRange = TimeRange()
    updated_at: TimeRange = TimeRange()
    none_of: Exclusion = Exclusion()
    all_of: tuple[Filter, ...] = ()
    any_of: tuple[Filter, ...] = ()

    @cached_property
    def condition(self) -> AllOf:
        """The condition that a segment must pass, which is hashable; without parts, any passes."""
        if not self.restricts:
            return AllOf(())
        terms = [
            [f"k:{kind}" for kind in self.kinds],
            [f"s:{name_key(speaker)}" for speaker in self.speakers],
            [f"{OF_SESSION}{session}" for session in self.sessions],
            [f"e:{name_key(entity)}" for entity in self.entities],
        ]
        parts: list[Condition] = [HasTerm(tuple(group)) for group in terms if group]
        parts += [_label(key, wanted) for key, wanted in self.labels.items() if wanted != ()]
        if excluded := self.none_of.conditions:
            parts.append(NoneOf(tuple(excluded)))
        if self.min_importance > 0:
            parts.append(IsImportant(self.min_importance))
        for name in TIMES:
            range_: TimeRange = getattr(self, name)
            if range_ != TimeRange():
                parts.append(Within(name, range_.start, range_.end))
        parts += [each.condition for each in self.all_of]
        if self.any_of:
            parts.append(AnyOf(tuple(each.condition for each in self.any_of)))
        return AllOf(tuple(parts))

    @property
    def restricts(self) -> bool:
        """Whether any field restricts."""
        return self != NO_FILTER

    @property
    def selects(self) -> bool:
        """Whether it says what to consider, and not only what to leave out."""
        own = replace(self, none_of=Exclusion(), all_of=(), any_of=())
        return (
            own.restricts
            or any(each.selects for each in self.all_of)
            or (bool(self.any_of) and all(each.selects for each in self.any_of))
        )

    @property
    def of_evidence(self) -> Filter:
        """The filter for the segments of a fact's evidence.

        The range of event times is for the validity of the fact. If the filter `selects`, one known
        segment must pass; else a fact fails only if it has known evidence, and all of it fails.
        """
        none_of = replace(self.none_of, fact_ids=())
        return replace(self, event_time=TimeRange(), none_of=none_of)

    def accepts(self, segment: Segment) -> bool:
        """Whether a stored segment passes."""
        return passes(segment, self.condition)

    def failed_by(self, segment: Segment) -> list[str]:
        """The names of the fields that reject a stored segment; empty if it is accepted."""
        return [
            field_.name
            for field_ in fields(self)
            if not Filter(**{field_.name: getattr(self, field_.name)}).accepts(segment)
        ]


NO_FILTER = Filter()


def _label(key: str, wanted: LabelCondition) -> Condition:
    match wanted:
        case NumberRange(least, most):
            return number_within(key, least, most)
        case TimeRange(start, end):
            return date_within(key, start, end)
        case bool():
            return has_label(key) if wanted else NoneOf((has_label(key),))
        case values:
            return HasTerm(tuple(label_term(key, value) for value in values))


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The restrictions that hold on every leg: tenant, filter and clocks.

    `known_at` hides what was recorded later; None hides nothing.
    """

    tenant: TenantName
    as_of: datetime
    filter: Filter = NO_FILTER
    known_at: datetime | None = None

    @property
    def clocks(self) -> Clocks:
        """The clocks that decide whether a fact holds."""
        return Clocks(self.as_of, self.known_at)

    def within(self, event_time: TimeRange) -> Scope:
        """The scope, restricted to a range of event times."""
        shared = self.filter.event_time.shared_with(event_time)
        return replace(self, filter=replace(self.filter, event_time=shared))

    @cached_property
    def segment_filter(self) -> Filter:
        """The filter, restricted to segments that were recorded by `known_at`."""
        if self.known_at is None:
            return self.filter
        created = self.filter.created_at
        after = min(self.known_at, _LAST) + _INSTANT
        return replace(
            self.filter, created_at=TimeRange(created.start, earliest(created.end, after))
        )


@dataclass(frozen=True, slots=True)
class TenantWeight:
    """A tenant to ask, and the factor of its scores."""

    tenant: TenantName
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question.

    `vector`, if given, is the embedding of the question, of unit length; `text` is then not
    embedded and may be empty. `seeds` are segment ids: the graph walk starts from their entities
    instead of from the names in `text`. An answer may not lack the legs `required`. The days that
    `text` names are those of `time_zone`; without one, of its tenant's.

    With `tenants`, each of these is asked, and the tenant of the scope is the first. A query that
    was made of such a one has its first tenant as `shared_with`: their vectors are the same.
    """

    scope: Scope
    text: str
    vector: tuple[float, ...] | None = None
    token: ConsistencyToken | None = None
    seeds: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    time_zone: tzinfo | None = None
    tenants: tuple[TenantWeight, ...] = ()
    shared_with: TenantName | None = None

    def of_tenant(self, tenant: TenantName) -> Query:
        """The query to one of its tenants."""
        scope = replace(self.scope, tenant=tenant)
        return replace(self, scope=scope, tenants=(), shared_with=self.scope.tenant)

    @property
    def local_time(self) -> datetime:
        """The reference time of the question, in its zone."""
        return self.local(self.scope.as_of)

    def local(self, instant: datetime) -> datetime:
        """An instant in the zone of the question, which is UTC as long as none is known."""
        return instant.astimezone(self.time_zone or UTC)
