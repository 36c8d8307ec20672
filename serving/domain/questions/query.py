"""A query: the question, its scope, its filters and its clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, tzinfo

from serving.domain.consistency import ConsistencyToken
from serving.domain.items.records import Segment, TenantName
from serving.domain.items.text import name_key
from serving.domain.items.validity import Clocks, earliest

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


def label_term(key: str, value: str) -> str:
    """The filter term of a label.

    Equals signs and backslashes of the key are escaped by a backslash. So the first `=` that is not
    escaped ends the key, and two different labels never have the same term.
    """
    escaped = key.replace("\\", "\\\\").replace("=", "\\=")
    return f"l:{escaped}={value}"


OF_SESSION = "c:"
"""How the term of a session begins."""


def segment_terms(segment: Segment) -> frozenset[str]:
    """The filter terms of a segment; all stores use the same vocabulary.

    A term is "<letter>:<value>": k kind, s speaker, c session (conversation), l label
    (`label_term`), e entity. PostgreSQL, the vector index and the graph store these terms with each
    row, so a filter has the same meaning on every leg.
    """
    terms = {f"k:{segment.kind}"}
    if segment.speaker:
        terms.add(f"s:{name_key(segment.speaker)}")
    if segment.session:
        terms.add(f"{OF_SESSION}{segment.session}")
    terms.update(label_term(key, value) for key, value in segment.labels.items())
    terms.update(f"e:{name_key(name)}" for name in segment.entities)
    if segment.entity:
        terms.add(f"e:{name_key(segment.entity)}")
    return frozenset(terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """What a filter leaves out: each item that matches a value of any field."""

    kinds: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Of segments."""
    fact_ids: tuple[str, ...] = ()

    @property
    def terms(self) -> list[str]:
        """The filter terms of which a segment may have none."""
        return [
            *(f"k:{kind}" for kind in self.kinds),
            *(f"s:{name_key(speaker)}" for speaker in self.speakers),
            *(f"c:{session}" for session in self.sessions),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Restricts the segments to search; empty fields do not restrict."""

    kinds: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    speakers: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    min_importance: float = 0.0
    event_time: TimeRange = TimeRange()
    created_at: TimeRange = TimeRange()
    updated_at: TimeRange = TimeRange()
    none_of: Exclusion = Exclusion()

    def term_groups(self) -> list[list[str]]:
        """The equality filters as groups of terms: a segment needs one term of each group."""
        groups = [
            [f"k:{kind}" for kind in self.kinds],
            [f"s:{name_key(speaker)}" for speaker in self.speakers],
            [f"c:{session}" for session in self.sessions],
            [f"e:{name_key(entity)}" for entity in self.entities],
            *([label_term(key, value) for value in values] for key, values in self.labels.items()),
        ]
        return [group for group in groups if group]

    @property
    def restricts(self) -> bool:
        """Whether any field restricts."""
        return self != NO_FILTER

    @property
    def selects(self) -> bool:
        """Whether it says what to consider, and not only what to leave out."""
        return replace(self, none_of=Exclusion()).restricts

    @property
    def of_evidence(self) -> Filter:
        """What a segment of a fact's evidence must pass.

        The range of event times is for the validity of the fact. If the filter `selects`, one known
        segment must pass; else a fact fails only if it has known evidence, and all of it fails.
        """
        none_of = replace(self.none_of, fact_ids=())
        return replace(self, event_time=TimeRange(), none_of=none_of)

    def accepts(self, segment: Segment) -> bool:
        """Whether a stored segment passes. The reference for the implementation of each store."""
        if not self.restricts:
            return True
        terms = segment_terms(segment)
        return (
            all(not terms.isdisjoint(group) for group in self.term_groups())
            and terms.isdisjoint(self.none_of.terms)
            and segment.id not in self.none_of.ids
            and segment.importance >= self.min_importance
            and segment.event_time in self.event_time
            and (segment.created_at is None or segment.created_at in self.created_at)
            and (segment.updated_at is None or segment.updated_at in self.updated_at)
        )

    def failed_by(self, segment: Segment) -> list[str]:
        """The names of the fields that reject a stored segment; empty if it is accepted."""
        return [
            field_.name
            for field_ in fields(self)
            if not Filter(**{field_.name: getattr(self, field_.name)}).accepts(segment)
        ]


NO_FILTER = Filter()


@dataclass(frozen=True, slots=True, kw_only=True)
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

    @property
    def segment_filter(self) -> Filter:
        """The filter, restricted to segments that were recorded by `known_at`."""
        if self.known_at is None:
            return self.filter
        created = self.filter.created_at
        after = min(self.known_at, _LAST) + _INSTANT
        return replace(
            self.filter, created_at=TimeRange(created.start, earliest(created.end, after))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question.

    `vector`, if given, is the embedding of the question, of unit length; `text` is then not
    embedded and may be empty. `seeds` are segment ids: the graph walk starts from their entities
    instead of from the names in `text`. An answer may not lack the legs `required`. The days that
    `text` names are those of `time_zone`; without one, of its tenant's.
    """

    scope: Scope
    text: str
    vector: tuple[float, ...] | None = None
    token: ConsistencyToken | None = None
    seeds: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    time_zone: tzinfo | None = None

    @property
    def local_time(self) -> datetime:
        """The reference time of the question, in its zone."""
        return self.local(self.scope.as_of)

    def local(self, instant: datetime) -> datetime:
        """An instant in the zone of the question, which is UTC as long as none is known."""
        return instant.astimezone(self.time_zone or UTC)
