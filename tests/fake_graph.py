"""The graph in memory: every item asked in turn, the reference for what a walk may find."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from serving.domain.budget import Deadline
from serving.domain.profile import Yields
from serving.domain.query import Query, Scope, TimeRange
from serving.domain.ranking import Candidate, best_first
from serving.domain.records import Fact, Item, ItemId, Segment, TenantName
from serving.domain.text import name_key
from serving.ports import GraphChanges

HOP_DECAY = 0.5
STOP_WORDS = frozenset({"a", "does", "in", "is", "of", "on", "the", "what", "when", "where", "who"})

Items = dict[ItemId, Item]


@dataclass(frozen=True)
class _Walk:
    """Where a walk has come: what it passes on there, how it went, and over which facts."""

    at: str
    activation: float
    path: str
    over: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class _Gain:
    """What one way gives to one item."""

    item: ItemId
    amount: float
    path: str
    facts: tuple[str, ...] = ()


class InMemoryGraph:
    """A `Graph` without bounds on fan-out and without near misses."""

    def __init__(self) -> None:
        self._tenants: defaultdict[TenantName, Items] = defaultdict(dict)

    async def prepare(self) -> None:
        """Nothing needs setting up."""

    async def apply(self, changes: GraphChanges) -> None:
        for tenant, item in changes.removed:
            self._tenants[tenant].pop(item, None)
        for segment in changes.segments:
            self._tenants[segment.tenant][segment.segment.item] = segment.segment
        for fact in changes.facts:
            self._tenants[fact.tenant][fact.fact.item] = fact.fact

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return len(self._tenants[tenant].keys() & set(items))

    async def count_entities(self, tenant: TenantName) -> int:
        return len(_names(self._tenants[tenant]))

    async def search(
        self, query: Query, depth: int, yields: Yields, deadline: Deadline
    ) -> list[Candidate]:
        if deadline.passed:
            raise TimeoutError
        memory = _Memory(self._tenants[query.scope.tenant], query.scope)
        find = memory.facts if yields is Yields.FACTS else memory.segments
        return _added_up(find(query.text))[:depth]


class _Memory:
    """What one tenant's items say within a scope."""

    def __init__(self, items: Items, scope: Scope) -> None:
        self._scope = scope
        self._names = _names(items)
        self._segments = {i.id: i for i in items.values() if isinstance(i, Segment)}
        self._facts = [i for i in items.values() if isinstance(i, Fact)]

    def segments(self, question: str) -> Iterator[_Gain]:
        for start in self._starts(question):
            yield from self._at(start, mentions=1.0)
            for first in self._steps(start):
                yield from self._evidence(first)
                yield from self._at(first, mentions=HOP_DECAY)
                for second in self._steps(first, HOP_DECAY):
                    yield from self._evidence(second)
                    yield from self._at(second, mentions=0.0)

    def facts(self, question: str) -> Iterator[_Gain]:
        for start in self._starts(question):
            for first in self._steps(start):
                for walk in (first, *self._steps(first, HOP_DECAY)):
                    if self._passes(walk.over[-1]):
                        yield _Gain(walk.over[-1].item, walk.activation, walk.path)

    def _starts(self, question: str) -> list[_Walk]:
        """The entities named, a longer name for more, and for less within a longer one."""
        words = name_key(question).split()
        spans = {
            (start, end): " ".join(words[start:end])
            for start in range(len(words))
            for end in range(start + 1, len(words) + 1)
            if not STOP_WORDS.issuperset(words[start:end])
        }
        named = {span: key for span, key in spans.items() if key in self._names}
        weights: dict[str, float] = {}
        for (start, end), key in named.items():
            within = any(a <= start and end <= b and (a, b) != (start, end) for a, b in named)
            weights[key] = max(weights.get(key, 0.0), (end - start) * (0.25 if within else 1.0))
        return [_Walk(key, weight, self._names[key]) for key, weight in weights.items()]

    def _steps(self, walk: _Walk, decay: float = 1.0) -> list[_Walk]:
        """On from an entity over every fact that holds, never back to where one was."""
        leaving = [fact for fact in self._facts if walk.at in _ends(fact)]
        links = sum(_ends(fact).count(walk.at) for fact in leaving)
        been = {walk.at, *(end for fact in walk.over for end in _ends(fact))}
        return [
            self._step(walk, fact, decay * walk.activation / math.sqrt(links))
            for fact in leaving
            if self._holds(fact) and not been.issuperset(_ends(fact))
        ]

    def _step(self, walk: _Walk, fact: Fact, share: float) -> _Walk:
        subject, object_ = _ends(fact)
        forward = subject == walk.at
        reached = object_ if forward else subject
        arrow = f"-[{fact.relation}]->" if forward else f"<-[{fact.relation}]-"
        path = f"{walk.path} {arrow} {self._names[reached]}"
        return _Walk(reached, share * fact.weight, path, (*walk.over, fact))

    def _evidence(self, walk: _Walk) -> Iterator[_Gain]:
        fact = walk.over[-1]
        for id_ in fact.evidence:
            segment = self._segments.get(id_)
            if segment is not None and self._visible(segment):
                yield _Gain(segment.item, walk.activation, walk.path, (fact.id,))

    def _at(self, walk: _Walk, *, mentions: float) -> Iterator[_Gain]:
        """What mentions the entity that a walk has come to, and what is it."""
        naming = [s for s in self._segments.values() if walk.at in _mentioned(s)]
        share = mentions * walk.activation / math.sqrt(len(naming) or 1)
        for segment in filter(self._visible, naming):
            if share:
                yield _Gain(segment.item, share, walk.path)
        for segment in filter(self._visible, self._segments.values()):
            if segment.entity and name_key(segment.entity) == walk.at:
                yield _Gain(segment.item, walk.activation, walk.path)

    def _visible(self, segment: Segment) -> bool:
        return segment.event_time <= self._scope.as_of and self._scope.filter.accepts(segment)

    def _holds(self, fact: Fact) -> bool:
        known = fact.retracted_at is None or self._scope.as_of < fact.retracted_at
        return known and self._scope.as_of in TimeRange(fact.valid_from, fact.valid_to)

    def _passes(self, fact: Fact) -> bool:
        filter_ = self._scope.filter
        if not filter_.event_time.overlaps(fact.valid_from, fact.valid_to):
            return False
        timeless = replace(filter_, event_time=TimeRange())
        evidence = [self._segments[id_] for id_ in fact.evidence if id_ in self._segments]
        return not timeless.restricts or any(
            segment.event_time <= self._scope.as_of and timeless.accepts(segment)
            for segment in evidence
        )


def _ends(fact: Fact) -> tuple[str, str]:
    return name_key(fact.subject), name_key(fact.object)


def _mentioned(segment: Segment) -> set[str]:
    return {key for key in map(name_key, (*segment.entities, segment.speaker)) if key}


def _names(items: Items) -> dict[str, str]:
    """The names of all entities, by their keys."""
    names: dict[str, str] = {}
    for item in items.values():
        if isinstance(item, Segment):
            named = (*item.entities, item.speaker, item.entity)
        else:
            named = (item.subject, item.object)
        names.update((name_key(name), name) for name in named if name_key(name))
    return names


def _added_up(gains: Iterator[_Gain]) -> list[Candidate]:
    ways: defaultdict[ItemId, list[_Gain]] = defaultdict(list)
    for gain in gains:
        ways[gain.item].append(gain)
    return best_first(_candidate(item, of_item) for item, of_item in ways.items())


def _candidate(item: ItemId, ways: list[_Gain]) -> Candidate:
    ways = sorted(ways, key=lambda way: (not way.facts, -way.amount))
    facts = dict.fromkeys(fact for way in ways for fact in way.facts)
    score = round(math.fsum(way.amount for way in ways), 9)
    return Candidate(item, score, ways[0].path, tuple(facts))
