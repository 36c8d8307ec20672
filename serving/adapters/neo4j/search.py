"""Writes a question as the parameters of a statement, and reads candidates from its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from serving.adapters.neo4j.names import NamedSpan
from serving.adapters.neo4j.projection import Row, microseconds
from serving.domain.profile import Yields
from serving.domain.query import Filter, Scope, TimeRange
from serving.domain.ranking import Candidate, best_first
from serving.domain.records import ItemId, ItemKind

HOP_DECAY = 0.5
"""What a second hop, or a mention of what a first one reached, counts against a first."""

MAX_SEEDS = 32
"""The names of a question that the walk starts from, the longest first."""

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

_EARLIEST, _LATEST = -(2**63), 2**63 - 1


def search_parameters(scope: Scope, spans: Sequence[NamedSpan], depth: int) -> Row:
    """The parameters of every search statement."""
    return {
        "tenant": scope.tenant,
        "as_of": microseconds(scope.as_of),
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
        "earliest": _EARLIEST,
        "latest": _LATEST,
        **_filter_parameters(scope.filter),
    }


def _filter_parameters(filter_: Filter) -> Row:
    return {
        "filtered": filter_.restricts,
        # The time of a fact is its validity; only what else is asked is asked of its evidence.
        "evidence_filtered": replace(filter_, event_time=TimeRange()).restricts,
        "term_groups": filter_.term_groups(),
        "min_importance": filter_.min_importance,
        **_range_parameters("event", filter_.event_time),
        **_range_parameters("created", filter_.created_at),
        **_range_parameters("updated", filter_.updated_at),
    }


def _range_parameters(name: str, range_: TimeRange) -> Row:
    """Both ends of a range; an open end is one that no instant reaches."""
    return {
        f"{name}_from": _EARLIEST if range_.start is None else microseconds(range_.start),
        f"{name}_to": _LATEST if range_.end is None else microseconds(range_.end),
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


def candidates(found: Sequence[Sequence[object]], yields: Yields) -> list[Candidate]:
    """What was found, best first.

    Args:
        found: Per item its id, its score in billionths and its trails.
        yields: Whether the items are facts or segments.
    """
    kind = ItemKind.FACT if yields is Yields.FACTS else ItemKind.SEGMENT
    return best_first(_candidate(kind, *item) for item in found)


def _candidate(kind: ItemKind, id_: object, billionths: object, trails: object) -> Candidate:
    ways = [Trail.read(values) for values in cast(list[list[object]], trails)]
    # The way to a fact that the item is evidence of says more than a mention of its ends.
    ways.sort(key=lambda way: (not way.cited, -way.gain, len(way.steps), way.seed))
    return Candidate(
        ItemId(kind, str(id_)),
        cast(int, billionths) / 1e9,
        path_of(ways),
        () if kind is ItemKind.FACT else facts_of(ways),
    )


def path_of(ways: Sequence[Trail]) -> str:
    """The first way in words; where that is a mention, all names that are mentioned."""
    if not ways:
        return ""
    first = ways[0]
    if first.steps:
        return " ".join([first.seed, *map(str, first.steps)])
    return ", ".join(dict.fromkeys(way.seed for way in ways if not way.steps))


def facts_of(ways: Sequence[Trail]) -> tuple[str, ...]:
    """The facts that the item is evidence of, in the order of the ways."""
    return tuple(dict.fromkeys(way.steps[-1].fact_id for way in ways if way.cited))
