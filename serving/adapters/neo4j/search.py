"""A question as a statement with parameters, and its result as candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString, cast

from serving.adapters.neo4j import walks
from serving.adapters.neo4j.rows import Row
from serving.domain.items.instants import AFTER_ALL, BEFORE_ALL, microseconds
from serving.domain.items.records import ItemId, ItemKind, segment_id
from serving.domain.items.text import MAX_MENTIONS, MAX_NAMES_SHOWN, NAMED_SHARE, words_to_name_by
from serving.domain.questions import filters
from serving.domain.questions.named_entities import NamedSpan
from serving.domain.questions.query import Query, Scope, TimeRange
from serving.domain.ranking.leg_options import Walk, WalkDirection, WalkOrder
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.domain.ranking.walk import (
    FACTS_PER_ENTITY,
    FACTS_PER_SEED,
    FACTS_PER_SEED_FILTERED,
    HOP_DECAY,
    MAX_ROWS,
    MAX_SEEDS,
    MAX_TRAILS,
    MIN_FAN_OUT,
    REACHED_MENTIONS,
    Step,
    Trail,
    citing,
    path_of,
    reached,
)

LINKS = {
    WalkDirection.BOTH: ["SUBJECT", "OBJECT"],
    WalkDirection.FORWARD: ["SUBJECT"],
    WalkDirection.BACKWARD: ["OBJECT"],
}
"""The links from an entity to a fact that a walk in this direction follows."""

_JOINS: dict[type[filters.Condition], str] = {
    filters.AllOf: "all",
    filters.AnyOf: "any",
    filters.NoneOf: "none",
}

DEFAULT_WALK = Walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A walk, its start and its scope.

    `seeds` are the ids of the segments to start from; None starts from the question's names.
    """

    scope: Scope
    walk: Walk
    seeds: tuple[str, ...] | None
    depth: int
    yields: Yields

    @property
    def is_default(self) -> bool:
        """Whether this is the walk of most questions, which has its own statements."""
        return self.seeds is None and replace(self.walk, seeds_from=()) == DEFAULT_WALK

    @property
    def statement(self) -> LiteralString:
        to_facts = self.yields is Yields.FACTS
        if self.is_default:
            return walks.FIND_FACTS if to_facts else walks.FIND_SEGMENTS
        if self.walk.order is WalkOrder.DISTANCE:
            return walks.NEAREST_FACTS if to_facts else walks.NEAREST_SEGMENTS
        return walks.FOLLOW_TO_FACTS if to_facts else walks.FOLLOW_TO_SEGMENTS

    def parameters(self, spans: Sequence[NamedSpan] = ()) -> Row:
        """The statement's parameters; `spans` are the names in the question."""
        parameters = search_parameters(self.scope, spans, self.depth)
        if self.is_default:
            return parameters
        return {
            **parameters,
            "segments": list(self.seeds or ()),
            "by_name": self.seeds is None or self.walk.mentions,
            "mentions": self.walk.mentions,
            "selective": bool(self.walk.relations),
            "places": relation_places(self.walk.relations),
            "links": LINKS[self.walk.direction],
            "hops": self.walk.hops,
            "facts_per_seed": max(cast(int, parameters["facts_per_seed"]), self.depth),
        }


def relation_places(relations: Sequence[str]) -> dict[str, float]:
    """The place of each relation, in [0, 1), keyed in lower case as by `toLower`.

    Added to the hops, it never amounts to a whole hop.
    """
    distinct = dict.fromkeys(relation.lower() for relation in relations)
    return {relation: place / (len(distinct) + 1) for place, relation in enumerate(distinct)}


def search_parameters(scope: Scope, spans: Sequence[NamedSpan], depth: int) -> Row:
    """The parameters of the default walk, which custom walks need too."""
    return {
        **scope_parameters(scope),
        "as_known": scope.known_at is not None,
        "recorded_by": AFTER_ALL if scope.known_at is None else microseconds(scope.known_at),
        "retracted_by": AFTER_ALL - 1 if scope.known_at is None else microseconds(scope.known_at),
        "spans": [[span.words, span.weight, span.start, span.end] for span in spans],
        "depth": depth,
        "seeds": MAX_SEEDS,
        "fan_out": max(MIN_FAN_OUT, depth),
        "facts_per_seed": FACTS_PER_SEED_FILTERED if scope.filter.restricts else FACTS_PER_SEED,
        "facts_per_entity": FACTS_PER_ENTITY,
        "reached_mentions": REACHED_MENTIONS,
        "rows": max(MAX_ROWS, 4 * depth),
        "trails": MAX_TRAILS,
        "hop_decay": HOP_DECAY,
        # A fact's time is its validity; the rest of the filter applies to its evidence.
        "evidence_filtered": scope.filter.of_evidence.restricts,
        "selects": scope.filter.of_evidence.selects,
        "excluded_fact_ids": list(scope.filter.none_of.fact_ids),
    }


def scope_parameters(scope: Scope) -> Row:
    """The parameters of the scope's conditions (`filters`)."""
    filter_ = scope.segment_filter
    return {
        "tenant": scope.tenant,
        "as_of": microseconds(scope.as_of),
        "earliest": BEFORE_ALL,
        "latest": AFTER_ALL,
        "filtered": filter_.restricts,
        "timed": filter_.event_time != TimeRange(),
        "conditions": condition_nodes(filter_.of_evidence.condition),
        "event_from": _bound(filter_.event_time.start, BEFORE_ALL),
        "event_to": _bound(filter_.event_time.end, AFTER_ALL),
    }


def condition_nodes(condition: filters.Condition) -> list[Row]:
    """The nodes of a condition, each after its parts, which it names by their places."""
    nodes: list[Row] = []
    _add_nodes(nodes, condition)
    return nodes


def _add_nodes(nodes: list[Row], condition: filters.Condition) -> int:
    """Adds the nodes of a condition; returns the place of its own."""
    match condition:
        case filters.HasTerm(terms):
            node: Row = {"terms": list(terms)}
        case filters.HasTermWithin(first, end):
            node = {"first": first, "end": end}
        case filters.HasId(ids):
            node = {"ids": list(ids)}
        case filters.IsImportant(least):
            node = {"least": least}
        case filters.Within(time, start, end):
            node = {"time": time, "start": _bound(start, BEFORE_ALL), "end": _bound(end, AFTER_ALL)}
        case filters.AllOf(parts) | filters.AnyOf(parts) | filters.NoneOf(parts):
            node = {_JOINS[type(condition)]: [_add_nodes(nodes, part) for part in parts]}
    nodes.append(node)
    return len(nodes) - 1


def _bound(instant: datetime | None, missing: int) -> int:
    """An end of a range in microseconds; an open end is beyond all instants."""
    return missing if instant is None else microseconds(instant)


def related_parameters(query: Query, seeds: Sequence[str], depth: int) -> Row:
    """The parameters of `walks.RELATED_SEGMENTS`."""
    return {
        **scope_parameters(query.scope),
        "asked": sorted(words_to_name_by(query.text)),
        "named_share": NAMED_SHARE,
        "segments": list(seeds),
        "depth": depth,
        "most_mentions": MAX_MENTIONS,
        "names": MAX_NAMES_SHOWN,
    }


def candidates(
    found: Sequence[Sequence[object]], yields: Yields, order: WalkOrder = WalkOrder.ACTIVATION
) -> list[Candidate]:
    """Converts a result, of an id, a score in billionths and trails each; best first."""
    kind = ItemKind.FACT if yields is Yields.FACTS else ItemKind.SEGMENT
    read = [_candidate(kind, order, *item) for item in found]
    if order is WalkOrder.ACTIVATION:
        return best_first(read)
    # Equally near items are in the order of their seeds, which a stable sort preserves.
    return sorted(read, key=lambda candidate: -candidate.score)


def _candidate(
    kind: ItemKind, order: WalkOrder, id_: Any, billionths: Any, written: Any
) -> Candidate:
    item = ItemId(kind, id_)
    trails = [_trail(values) for values in written]
    if order is WalkOrder.ACTIVATION:
        found = reached(item, billionths / 1e9, trails)
    else:
        # Trails come in the order of seeds; of equally near ones the first seed's stays first.
        trails.sort(key=lambda trail: -trail.gain)
        found = Candidate(item, trails[0].gain, path_of(trails), citing(trails))
    return found._replace(facts=()) if kind is ItemKind.FACT else found


def _trail(values: Sequence[Any]) -> Trail:
    """Reads gain, seed, two steps of (fact, relation, type of its link, end), and cited."""
    gain, seed, first, relation, link, end, second, relation_2, link_2, end_2, cited = values
    steps: tuple[Step, ...] = ()
    if first is not None:
        steps = (Step(first, relation, link == "SUBJECT", end),)
    if second is not None:
        steps += (Step(second, relation_2, link_2 == "SUBJECT", end_2),)
    return Trail(gain, seed, steps, cited)


def related_candidates(found: Sequence[Sequence[object]]) -> list[Candidate]:
    """Converts a result to candidates, best first; a path names the shared entities."""
    return best_first(
        Candidate(segment_id(str(id_)), cast(int, score) / 1e9, ", ".join(cast(list[str], names)))
        for id_, score, names in found
    )
