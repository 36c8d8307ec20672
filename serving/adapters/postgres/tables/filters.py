"""The conditions of statements: the tenant, sensitivity, and a request's filter.

Every condition on a tenant is marked with the comment `-- tenant filter`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from serving.domain.items.records import ItemKind, Segment
from serving.domain.questions import filters
from serving.domain.questions.query import Filter, TimeRange

TENANT_ID = "(SELECT tenant.id FROM tenant WHERE tenant.name = %(tenant)s::text)"
"""The id of the tenant named by `%(tenant)s`; NULL, which equals nothing, for an unknown tenant.
Resolved in each statement, so that there is no cache to invalidate when a tenant is erased."""

IS_HIDDEN = {
    ItemKind.SEGMENT: "segment.sensitive",
    ItemKind.FACT: """
    (fact.sensitive OR EXISTS (
      SELECT FROM segment AS resting_on
       WHERE resting_on.tenant_id = fact.tenant_id -- tenant filter
         AND resting_on.id = ANY (fact.evidence) AND resting_on.sensitive))
""",
}
"""Whether a row must not be projected. A fact is hidden if it or any of its evidence is
sensitive."""

EVIDENCE_EXPIRES_AT = """
(SELECT CASE WHEN count(*) = cardinality(fact.evidence) THEN max(resting_on.expires_at) END
   FROM segment AS resting_on
  WHERE resting_on.tenant_id = fact.tenant_id -- tenant filter
    AND resting_on.id = ANY (fact.evidence) AND resting_on.expires_at IS NOT NULL)
"""
"""When the last of a fact's evidence expires; NULL if some does not, or is not stored."""

EXPIRES_AT = {
    ItemKind.SEGMENT: "segment.expires_at",
    ItemKind.FACT: f"least(fact.expires_at, {EVIDENCE_EXPIRES_AT})",
}
"""When a row expires, NULL for never: a fact expires with the last of its evidence."""

WEEK_S = 7 * 24 * 3600
MAX_WEEK_TERMS = 27
"""A longer range (half a year) is filtered by the comparison of times alone."""

_WEEK = "w:"


def tags_of(segment: Segment) -> list[str]:
    """The terms that a segment is indexed under: its `segment_terms` and its week.

    The week term lets the word index serve short time ranges: at 1M segments a range of one week
    dropped from 9.0 to 2.0 ms.
    """
    return sorted({*filters.segment_terms(segment), _week_term(_week_of(segment.event_time))})


def terms_of(tags: list[str]) -> frozenset[str]:
    """The `segment_terms` among a segment's tags."""
    return frozenset(tag for tag in tags if not tag.startswith(_WEEK))


@dataclass(slots=True)
class Conditions:
    """Conditions joined by AND, with the values of their placeholders."""

    texts: list[str] = field(default_factory=list)
    values: dict[str, object] = field(default_factory=dict)

    def add(self, text: str, *values: object) -> None:
        """Adds a condition; each `{}` in `text` stands for a value."""
        self.texts.append(self._with_values(text, *values))

    def require(self, condition: filters.Condition) -> None:
        """Adds a condition on `segment`."""
        self.texts.append(self._text(condition))

    def _with_values(self, text: str, *values: object) -> str:
        names = [f"filter_{len(self.values) + place}" for place in range(len(values))]
        self.values.update(zip(names, values, strict=True))
        return text.format(*(f"%({name})s" for name in names))

    def _text(self, condition: filters.Condition) -> str:
        match condition:
            case filters.HasTerm(terms):
                return self._with_values("tags && {}::text[]", list(terms))
            case filters.HasTermWithin(first, end):
                return self._with_values(_HAS_TERM_WITHIN, first, end)
            case filters.HasId(ids):
                return self._with_values("id = ANY ({}::text[])", list(ids))
            case filters.IsImportant(least):
                return self._with_values("importance >= {}::float8", least)
            case filters.Within(time, start, end):
                bounds = ((">=", start), ("<", end))
                given = [
                    self._with_values(f"{time} {sign} {{}}::timestamptz", bound)
                    for sign, bound in bounds
                    if bound is not None
                ]
                return " AND ".join(given) or "true"
            case filters.AllOf(parts):
                return " AND ".join(map(self._text, parts)) or "true"
            case filters.AnyOf(parts):
                return f"({' OR '.join(f'({self._text(part)})' for part in parts)})"
            case filters.NoneOf(parts):
                return f"NOT {self._text(filters.AnyOf(parts))}"

    def __str__(self) -> str:
        return "".join(f" AND {text}" for text in self.texts)


_HAS_TERM_WITHIN = """EXISTS (SELECT FROM unnest(tags) AS tag
  WHERE tag COLLATE "C" >= {}::text AND tag COLLATE "C" < {}::text)"""


def conditions_of(filter_: Filter, as_of: datetime | None = None) -> Conditions:
    """Converts a filter to conditions on `segment`, equivalent to `Filter.accepts`.

    Append them to a `WHERE tenant_id = ...`. With `as_of`, segments of a later event time fail
    them.
    """
    conditions = Conditions()
    for part in filter_.condition.parts:
        conditions.require(part)
    if as_of is not None:
        conditions.add("event_time <= {}::timestamptz", as_of)
    weeks = _week_terms(filter_.event_time, as_of)
    if weeks:
        conditions.add("tags && {}::text[]", weeks)
    return conditions


def _week_terms(range_: TimeRange, as_of: datetime | None) -> list[str]:
    """The weeks that a range overlaps; empty if the range is open or long."""
    ends = [end for end in (range_.end, as_of) if end is not None]
    if range_.start is None or not ends:
        return []
    weeks = range(_week_of(range_.start), _week_of(min(ends)) + 1)
    return [_week_term(week) for week in weeks] if len(weeks) <= MAX_WEEK_TERMS else []


def _week_of(instant: datetime) -> int:
    return int((instant - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() // WEEK_S)


def _week_term(week: int) -> str:
    return f"{_WEEK}{week}"
