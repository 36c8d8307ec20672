"""Cypher conditions of the searches: the tenant, a request's filter, and validity in time.

Every node that a search reaches is tested for its tenant, by `OF_TENANT`, `held` or a key that
contains the tenant.
"""

from __future__ import annotations

OF_TENANT = "segment:Segment {tenant: $given.tenant}"
"""The node pattern of a segment of the tenant."""


def if_given(flag: str, condition: str) -> str:
    """The condition if the question sets the flag, else true.

    Written as a CASE: the planner expands a disjunction into many clauses and takes twice as long.
    """
    return f"CASE WHEN $given.{flag} THEN {condition} ELSE true END"


def _end(fact: str) -> str:
    """When a fact's validity ended, as far as was known; without closings, its stated end."""
    stated = f"coalesce({fact}.valid_to, $given.latest)"
    return f"""CASE WHEN {fact}.closed_at IS NULL THEN {stated}
      ELSE reduce(ended = {stated}, n IN range(0, size({fact}.closed_at) - 1) |
        CASE WHEN {fact}.closed_at[n] < ended
              AND {fact}.closing_recorded_at[n] <= $given.recorded_by
              AND {fact}.closing_retracted_at[n] > $given.retracted_by
             THEN {fact}.closed_at[n] ELSE ended END) END"""


def held(fact: str) -> str:
    """Whether a fact is the tenant's and was valid at `as_of`, as far as was known."""
    recorded = f"coalesce({fact}.recorded_at, $given.earliest) <= $given.recorded_by"
    return f"""{fact}.tenant = $given.tenant
      AND coalesce({fact}.valid_from, $given.as_of) <= $given.as_of
      AND {_end(fact)} > $given.as_of
      AND coalesce({fact}.retracted_at, $given.latest) > $given.retracted_by
      AND {if_given("as_known", recorded)}"""


# The whole filter except its range of event times, which facts test against their validity. A
# statement keeps its plan, so the tree of conditions is a value (`search.condition_nodes`): each
# node is evaluated after its parts, and the root is the last. What most filters have comes first,
# since each case takes time.
_PASSES_FILTER = """reduce(results = [], node IN $given.conditions | results + [CASE
        WHEN node.terms IS NOT NULL THEN any(term IN node.terms WHERE term IN segment.terms)
        WHEN node.all IS NOT NULL THEN all(part IN node.all WHERE results[part])
        WHEN node.none IS NOT NULL THEN none(part IN node.none WHERE results[part])
        WHEN node.any IS NOT NULL THEN any(part IN node.any WHERE results[part])
        WHEN node.first IS NOT NULL
          THEN any(term IN segment.terms WHERE node.first <= term AND term < node.end)
        WHEN node.ids IS NOT NULL THEN segment.id IN node.ids
        WHEN node.least IS NOT NULL THEN segment.importance >= node.least
        ELSE coalesce(node.start <= segment[node.time] AND segment[node.time] < node.end, true)
      END])[-1]"""


# A segment that is cited but not written has no event_time and is never visible.
_BEFORE_AS_OF = "segment.event_time <= $given.as_of"
_IN_RANGE = "$given.event_from <= segment.event_time AND segment.event_time < $given.event_to"
VISIBLE = f"{_BEFORE_AS_OF} AND {if_given('filtered', f'{_IN_RANGE} AND {_PASSES_FILTER}')}"
"""Whether a segment of the tenant passes the filter and is not later than `as_of`."""

_OVERLAPS = f"""coalesce(fact.valid_from, $given.earliest) < $given.event_to
      AND {_end("fact")} > $given.event_from"""


def fact_passes(evidence: str = "segment") -> str:
    """Whether a fact passes the filter: by its own validity, else by a segment of its evidence."""
    has_evidence = f"""EXISTS {{
        (fact)-[:EVIDENCE]->({evidence}) WHERE {_BEFORE_AS_OF} AND {_PASSES_FILTER} }}"""
    has_known = f"""EXISTS {{
        (fact)-[:EVIDENCE]->({evidence}) WHERE segment.event_time IS NOT NULL }}"""
    rested = f"CASE WHEN $given.selects OR {has_known} THEN {has_evidence} ELSE true END"
    return f"""NOT fact.id IN $given.excluded_fact_ids
      AND {if_given("timed", _OVERLAPS)} AND {if_given("evidence_filtered", rested)}"""


def followed(link: str, fact: str, entity: str) -> str:
    """Whether a custom walk follows a link over a fact to an entity."""
    selected = f"$given.places[toLower({fact}.relation)] IS NOT NULL"
    return f"""{held(fact)} AND {entity}.tenant = $given.tenant
      AND type({link}) IN $given.links AND {if_given("selective", selected)}"""
