"""Writes a question as a statement and its parameters, and reads candidates from its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import LiteralString, cast

from serving.adapters.neo4j import walks
from serving.adapters.neo4j.names import NamedSpan
from serving.adapters.neo4j.projection import EARLIEST, LATEST, Row, microseconds
from serving.domain.leg_options import Walk, WalkDirection, WalkOrder
from serving.domain.profile import Yields
from serving.domain.query import Scope, TimeRange
from serving.domain.ranking import Candidate, best_first
from serving.domain.records import ItemId, ItemKind

HOP_DECAY = 0.5
"""What a second hop, or a mention of what a first one reached, counts against a first."""

MAX_SEEDS = 32
"""The entities that a walk starts from: names of the question, the longest first, or what the
first segments stand for."""

MIN_FAN_OUT = 64
"""The mentions that an entity brings, or `depth` if that is more. On LoCoMo's dev questions
recall@10 is the same with 50 as with 400."""

FACTS_PER_SEED = 200
FACTS_PER_SEED_FILTERED = 2000
"""Under a filter more facts are looked at, since fewer bring something."""

FACTS_PER_ENTITY = 50
"""The facts that are followed from an entity one hop away."""

REACHED_MENTIONS = 50
"""An entity one hop away with more mentions than these says nothing by them."""

MAX_ROWS = 2000
"""Contributions to all scores."""

MAX_TRAILS = 16
"""The contributions of one item that its path and facts are read from."""

LINKS = {
    WalkDirection.BOTH: ["SUBJECT", "OBJECT"],
    WalkDirection.FORWARD: ["SUBJECT"],
    WalkDirection.BACKWARD: ["OBJECT"],
}
"""The links by which a walk leaves an entity towards a fact."""

USUAL_WALK = Walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A walk to make: how, from where, and what it is for.

    `seeds` are the ids of the segments to start from, and None to start from what
    the question names.
    """

    scope: Scope
    walk: Walk
    seeds: tuple[str, ...] | None
    depth: int
    yields: Yields

    @property
    def usual(self) -> bool:
        """Whether the walk is the one that most questions lead to."""
        return self.seeds is None and replace(self.walk, seeds_from="") == USUAL_WALK

    @property
    def statement(self) -> LiteralString:
        """The statement that makes it."""
        to_facts = self.yields is Yields.FACTS
        if self.usual:
            return walks.FIND_FACTS if to_facts else walks.FIND_SEGMENTS
        if self.walk.order is WalkOrder.DISTANCE:
            return walks.NEAREST_FACTS if to_facts else walks.NEAREST_SEGMENTS
        return walks.FOLLOW_TO_FACTS if to_facts else walks.FOLLOW_TO_SEGMENTS

    def parameters(self, spans: Sequence[NamedSpan] = ()) -> Row:
        """What the statement is given; `spans` are what the question names."""
        usual = search_parameters(self.scope, spans, self.depth)
        return usual if self.usual else {**usual, **self._told(usual)}

    def _told(self, usual: Row) -> Row:
        return {
            "segments": list(self.seeds or ()),
            "by_name": self.seeds is None,
            "selective": bool(self.walk.relations),
            "places": relation_places(self.walk.relations),
            "links": LINKS[self.walk.direction],
            "hops": self.walk.hops,
            "facts_per_seed": max(cast(int, usual["facts_per_seed"]), self.depth),
        }

    def read(self, found: Sequence[Sequence[object]]) -> list[Candidate]:
        """What was found, best first."""
        return candidates(found, self.yields, self.walk.order)


def relation_places(relations: Sequence[str]) -> dict[str, float]:
    """The place of each relation from 0, as a share of their number and one more.

    It is added to the hops, and so never makes up for one. Relations are compared
    in lower case, as `toLower` has it.
    """
    distinct = dict.fromkeys(relation.lower() for relation in relations)
    return {relation: place / (len(distinct) + 1) for place, relation in enumerate(distinct)}


def search_parameters(scope: Scope, spans: Sequence[NamedSpan], depth: int) -> Row:
    """The parameters of the usual walk, which all others need too."""
    return {
        **scope_parameters(scope),
        "as_known": scope.known_at is not None,
        "recorded_by": LATEST if scope.known_at is None else microseconds(scope.known_at),
        "retracted_by": microseconds(scope.known_at or scope.as_of),
        "spans": [[span.key, span.weight, span.start, span.end] for span in spans],
        "depth": depth,
        "seeds": MAX_SEEDS,
        "fan_out": max(MIN_FAN_OUT, depth),
        "facts_per_seed": FACTS_PER_SEED_FILTERED if scope.filter.restricts else FACTS_PER_SEED,
        "facts_per_entity": FACTS_PER_ENTITY,
        "reached_mentions": REACHED_MENTIONS,
        "rows": max(MAX_ROWS, 4 * depth),
        "trails": MAX_TRAILS,
        "hop_decay": HOP_DECAY,
        # The time of a fact is its validity; only what else is asked is asked of its evidence.
        "evidence_filtered": replace(scope.filter, event_time=TimeRange()).restricts,
    }


def scope_parameters(scope: Scope) -> Row:
    """What it takes to ask whether a segment may be found."""
    filter_ = scope.segment_filter
    return {
        "tenant": scope.tenant,
        "as_of": microseconds(scope.as_of),
        "earliest": EARLIEST,
        "latest": LATEST,
        "filtered": filter_.restricts,
        "timed": filter_.event_time != TimeRange(),
        "term_groups": filter_.term_groups(),
        "min_importance": filter_.min_importance,
        **_range_parameters("event", filter_.event_time),
        **_range_parameters("created", filter_.created_at),
        **_range_parameters("updated", filter_.updated_at),
    }


def _range_parameters(name: str, range_: TimeRange) -> Row:
    """Both ends of a range; an open end is one that no instant reaches."""
    return {
        f"{name}_from": EARLIEST if range_.start is None else microseconds(range_.start),
        f"{name}_to": LATEST if range_.end is None else microseconds(range_.end),
    }


@dataclass(frozen=True, slots=True)
class Step:
    """A fact on the way, and the entity that it leads to."""

    fact_id: str
    relation: str
    forward: bool
    """From its subject to its object."""
    reached: str

    def __str__(self) -> str:
        arrow = f"-[{self.relation}]->" if self.forward else f"<-[{self.relation}]-"
        return f"{arrow} {self.reached}"


@dataclass(frozen=True, slots=True)
class Trail:
    """How one contribution to a score came about: an entity of the question and what followed.

    `cited` says whether the item is evidence of the last step's fact.
    """

    gain: float
    seed: str
    steps: tuple[Step, ...]
    cited: bool

    @classmethod
    def read(cls, values: Sequence[object]) -> Trail:
        """Reads gain, seed, twice fact, relation, type of the link left by, and end; and cited."""
        gain, seed, *links, cited = values
        steps = (
            Step(str(fact), str(relation), link == "SUBJECT", str(end))
            for fact, relation, link, end in (links[:4], links[4:])
            if fact is not None
        )
        return cls(cast(float, gain), str(seed), tuple(steps), bool(cited))

    def __str__(self) -> str:
        return " ".join([self.seed, *map(str, self.steps)])


def candidates(
    found: Sequence[Sequence[object]],
    yields: Yields,
    order: WalkOrder = WalkOrder.ACTIVATION,
) -> list[Candidate]:
    """What was found, best first.

    Args:
        found: Per item its id, its score in billionths and its trails.
        yields: Whether the items are facts or segments.
        order: How they were ordered.
    """
    kind = ItemKind.FACT if yields is Yields.FACTS else ItemKind.SEGMENT
    if order is WalkOrder.ACTIVATION:
        return best_first(_most_activated(kind, *item) for item in found)
    # What is equally near was ordered by seeds, which the sort leaves as it is.
    return sorted((_nearest(kind, *item) for item in found), key=lambda one: -one.score)


def _most_activated(kind: ItemKind, id_: object, billionths: object, trails: object) -> Candidate:
    ways = _ways(trails)
    # The way to a fact that the item is evidence of says more than a mention of its ends.
    ways.sort(key=lambda way: (not way.cited, -way.gain, len(way.steps), way.seed))
    return _candidate(ItemId(kind, str(id_)), cast(int, billionths) / 1e9, ways)


def _nearest(kind: ItemKind, id_: object, _: object, trails: object) -> Candidate:
    # The first seed's of the nearest ways: they come in the order of seeds.
    ways = sorted(_ways(trails), key=lambda way: -way.gain)
    return _candidate(ItemId(kind, str(id_)), ways[0].gain, ways)


def _ways(trails: object) -> list[Trail]:
    return [Trail.read(values) for values in cast(list[list[object]], trails)]


def _candidate(item: ItemId, score: float, ways: Sequence[Trail]) -> Candidate:
    facts = () if item.kind is ItemKind.FACT else facts_of(ways)
    return Candidate(item, score, path_of(ways), facts)


def path_of(ways: Sequence[Trail]) -> str:
    """The first way in words; where that is a mention, all names that are mentioned."""
    if not ways:
        return ""
    if ways[0].steps:
        return str(ways[0])
    return ", ".join(dict.fromkeys(way.seed for way in ways if not way.steps))


def facts_of(ways: Sequence[Trail]) -> tuple[str, ...]:
    """The facts that the item is evidence of, in the order of the ways."""
    return tuple(dict.fromkeys(way.steps[-1].fact_id for way in ways if way.cited))
