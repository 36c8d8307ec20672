"""The graph in memory: every item is checked, the reference for what a walk may find."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from serving.domain.budget import Deadline
from serving.domain.items.records import (
    Fact,
    Item,
    ItemId,
    ItemKind,
    Segment,
    TenantName,
    is_expired,
)
from serving.domain.items.text import name_key, name_words, names_entity, words_to_name_by
from serving.domain.questions.query import Query, Scope
from serving.domain.questions.visibility import visible
from serving.domain.ranking.leg_options import Walk, WalkDirection, WalkOrder
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate, best_first
from serving.ports.graph import GraphChanges
from tests.support.visibility import is_shown

HOP_DECAY = 0.5
MAX_MENTIONS = 50
STOP_WORDS = frozenset({"a", "does", "in", "is", "of", "on", "the", "what", "when", "where", "who"})

Items = dict[ItemId, Item]


@dataclass(frozen=True)
class _Position:
    """Where a walk has come: what it passes on there, how it went, and over which facts."""

    at: str
    activation: float
    path: str
    over: tuple[Fact, ...] = ()
    seed: str = ""
    """The entity that a given segment stands for, if it began there; it finds none of those."""
    owner: str = ""
    """The only segment that brought the entity where it began, which it does not find."""


@dataclass(frozen=True)
class _Gain:
    """What one position gives to one item."""

    item: ItemId
    amount: float
    path: str
    facts: tuple[str, ...] = ()
    seed: int = 0
    """The place of the segment that the walk began at, among those given."""


class InMemoryGraph:
    """A `Graph` without bounds on fan-out and without near misses."""

    def __init__(self) -> None:
        self._tenants: defaultdict[TenantName, Items] = defaultdict(dict)

    async def prepare(self) -> None:
        """Nothing needs setting up."""

    async def apply(self, changes: GraphChanges) -> None:
        for tenant, item in changes.removed:
            self._tenants[tenant].pop(item, None)
        for tenant, segment in changes.segments:
            self._tenants[tenant][segment.item] = segment
        for tenant, fact in changes.facts:
            self._tenants[tenant][fact.item] = fact

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        return len(self._tenants[tenant].keys() & set(items))

    async def count_entities(self, tenant: TenantName) -> int:
        return len(_names(self._tenants[tenant]))

    async def search(
        self,
        query: Query,
        walk: Walk,
        seeds: Sequence[ItemId] | None,
        depth: int,
        yields: Yields,
        deadline: Deadline,
    ) -> list[Candidate]:
        if deadline.passed:
            raise TimeoutError
        memory = _Memory(self._tenants[query.scope.tenant], query.scope, walk)
        if walk.mentions:
            starts = memory.named_or_mentioned(query.text, seeds or ())
        else:
            starts = memory.named(query.text) if seeds is None else memory.represented_by(seeds)
        if walk.order is WalkOrder.DISTANCE:
            return _nearest(memory.by_distance(starts, yields))[:depth]
        find = memory.facts if yields is Yields.FACTS else memory.segments
        return _added_up(find(starts))[:depth]

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> list[Candidate]:
        if deadline.passed:
            raise TimeoutError
        scope, asked = query.scope, words_to_name_by(query.text)
        items = self._tenants[scope.tenant]
        segments = [item for item in items.values() if isinstance(item, Segment)]
        names = _names(items)
        found: defaultdict[ItemId, list[tuple[float, str]]] = defaultdict(list)
        for rank, seed in enumerate(map(items.get, seeds), start=1):
            for key in _mentioned(seed) if isinstance(seed, Segment) else ():
                if names_entity(asked, names[key]):
                    continue
                mentioning = [segment for segment in segments if key in _mentioned(segment)]
                for segment in mentioning if len(mentioning) <= MAX_MENTIONS else ():
                    if segment is not seed and visible(segment, scope):
                        found[segment.item].append((1 / ((rank + 1) * len(mentioning)), key))
        return best_first(_sharing(item, gains, names) for item, gains in found.items())[:depth]


def _sharing(item: ItemId, gains: list[tuple[float, str]], names: dict[str, str]) -> Candidate:
    """A candidate with the names that it shares, those that give most first."""
    shared = dict.fromkeys(
        names[key] for _, key in sorted(gains, key=lambda gain: (-gain[0], gain[1]))
    )
    return Candidate(item, math.fsum(gain for gain, _ in gains), ", ".join([*shared][:4]))


class _Memory:
    """What one tenant's items say within a scope."""

    def __init__(self, items: Items, scope: Scope, walk: Walk) -> None:
        self._scope = scope
        self._relations = list(dict.fromkeys(map(str.lower, walk.relations)))
        self._hops = walk.hops
        self._direction = walk.direction
        self._names = _names(items)
        self._segments = {i.id: i for i in items.values() if isinstance(i, Segment)}
        self._facts = [i for i in items.values() if isinstance(i, Fact)]

    # ------------------------------------------------------------ where to start

    def named(self, question: str) -> list[_Position]:
        """The entities named, a longer name for more, and for less within a longer one."""
        words = name_words(question)
        spans = {
            (start, end): " ".join(words[start:end])
            for start in range(len(words))
            for end in range(start + 1, len(words) + 1)
            if not STOP_WORDS.issuperset(words[start:end])
        }
        by_words: defaultdict[str, list[str]] = defaultdict(list)
        for key, name in self._names.items():
            by_words[" ".join(name_words(name))].append(key)
        named = {span: by_words[run] for span, run in spans.items() if run in by_words}
        weights: dict[str, float] = {}
        for (start, end), keys in named.items():
            within = any(a <= start and end <= b and (a, b) != (start, end) for a, b in named)
            for key in keys:
                weight = (end - start) * (0.25 if within else 1.0)
                weights[key] = max(weights.get(key, 0.0), weight)
        return [_Position(key, weight, self._names[key]) for key, weight in weights.items()]

    def represented_by(self, seeds: Sequence[ItemId]) -> list[_Position]:
        """The entities that the segments stand for."""
        given = [self._segments.get(item.id) for item in seeds if item.kind is ItemKind.SEGMENT]
        keys = dict.fromkeys(name_key(segment.entity) for segment in given if segment)
        return [_Position(key, 1.0, self._names[key], seed=key) for key in keys if key]

    def named_or_mentioned(self, question: str, seeds: Sequence[ItemId]) -> list[_Position]:
        """The entities named, and the others that segments stand for or mention."""
        named = self.named(question)
        owners: defaultdict[str, set[str]] = defaultdict(set)
        weights: dict[str, float] = {}
        for place, segment in enumerate(self._segments.get(item.id) for item in seeds):
            if segment is None:
                continue
            for key in _mentioned(segment) | ({name_key(segment.entity)} - {""}):
                owners[key].add(segment.id)
                weights.setdefault(key, 1 / (place + 1))
        for key in owners.keys() - {position.at for position in named}:
            owner = next(iter(owners[key])) if len(owners[key]) == 1 else ""
            named.append(_Position(key, weights[key], self._names[key], owner=owner))
        return named

    # ------------------------------------------------------------ what is found

    def segments(self, starts: Sequence[_Position]) -> Iterator[_Gain]:
        """What arrives at segments."""
        for start in starts:
            yield from self._at(start, mentions=1.0)
            for first in self._steps(start):
                yield from self._evidence(first)
                yield from self._at(first, mentions=HOP_DECAY)
                for second in self._further(first):
                    yield from self._evidence(second)
                    yield from self._at(second, mentions=0.0)

    def facts(self, starts: Sequence[_Position]) -> Iterator[_Gain]:
        """What arrives at facts."""
        for start in starts:
            for first in self._steps(start):
                for position in (first, *self._further(first)):
                    if self._shows(position.over[-1]):
                        yield _Gain(position.over[-1].item, position.activation, position.path)

    def by_distance(self, starts: Sequence[_Position], yields: Yields) -> Iterator[_Gain]:
        """How near each is, on every path to it, and from which of the given segments."""
        for place, start in enumerate(starts):
            seed = place if start.seed else 0
            for first in self._steps(replace(start, seed=start.at)):
                for position in (first, *self._further(first)):
                    near = replace(position, activation=self._nearness(position))
                    for gain in self._ended(near, yields):
                        yield replace(gain, seed=seed)

    def _ended(self, position: _Position, yields: Yields) -> Iterator[_Gain]:
        """What a walk by distance brings."""
        if yields is Yields.EVIDENCE:
            yield from self._reached(position)
        elif self._shows(position.over[-1]):
            yield _Gain(position.over[-1].item, position.activation, position.path)

    def _nearness(self, position: _Position) -> float:
        relations = self._relations
        place = relations.index(position.over[-1].relation.lower()) if relations else 0
        return 1 / (len(position.over) + place / (len(relations) + 1))

    def _reached(self, position: _Position) -> Iterator[_Gain]:
        """What is the entity that a walk ends at, or the evidence for it where nothing is."""
        is_there = any(
            name_key(segment.entity) == position.at for segment in self._segments.values()
        )
        yield from self._at(position, mentions=0.0) if is_there else self._evidence(position)

    # ------------------------------------------------------------ walking

    def _further(self, position: _Position) -> list[_Position]:
        return self._steps(position, HOP_DECAY) if self._hops > 1 else []

    def _steps(self, position: _Position, decay: float = 1.0) -> list[_Position]:
        """On from an entity over every fact that holds, never back to where one was."""
        leaving = [fact for fact in self._facts if position.at in _ends(fact)]
        links = sum(_ends(fact).count(position.at) for fact in leaving)
        been = {position.at, *(end for fact in position.over for end in _ends(fact))}
        return [
            self._step(position, fact, decay * position.activation / math.sqrt(links))
            for fact in leaving
            if self._followed(fact, position.at) and not been.issuperset(_ends(fact))
        ]

    def _step(self, position: _Position, fact: Fact, share: float) -> _Position:
        subject, object_ = _ends(fact)
        forward = subject == position.at
        reached = object_ if forward else subject
        arrow = f"-[{fact.relation}]->" if forward else f"<-[{fact.relation}]-"
        path = f"{position.path} {arrow} {self._names[reached]}"
        over = (*position.over, fact)
        return replace(position, at=reached, activation=share * fact.weight, path=path, over=over)

    def _evidence(self, position: _Position) -> Iterator[_Gain]:
        fact = position.over[-1]
        for id_ in fact.evidence:
            segment = self._segments.get(id_)
            if segment is not None and self._found_from(position, segment):
                yield _Gain(segment.item, position.activation, position.path, (fact.id,))

    def _at(self, position: _Position, *, mentions: float) -> Iterator[_Gain]:
        """What mentions the entity that a walk has come to, and what is it."""
        naming = [s for s in self._segments.values() if position.at in _mentioned(s)]
        share = mentions * position.activation / math.sqrt(len(naming) or 1)
        for segment in naming:
            if share and self._found_from(position, segment):
                yield _Gain(segment.item, share, position.path)
        for segment in self._segments.values():
            if name_key(segment.entity) == position.at and self._found_from(position, segment):
                yield _Gain(segment.item, position.activation, position.path)

    def _shows(self, fact: Fact) -> bool:
        return is_shown(fact, self._scope, self._segments)

    def _found_from(self, position: _Position, segment: Segment) -> bool:
        its_own = bool(position.seed) and name_key(segment.entity) == position.seed
        return visible(segment, self._scope) and not its_own and segment.id != position.owner

    def _followed(self, fact: Fact, at: str) -> bool:
        wanted = not self._relations or fact.relation.lower() in self._relations
        subject, object_ = _ends(fact)
        along = {
            WalkDirection.BOTH: True,
            WalkDirection.FORWARD: at == subject,
            WalkDirection.BACKWARD: at == object_,
        }
        holds = fact.holds(self._scope.clocks) and not is_expired(fact, self._scope.as_of)
        return wanted and along[self._direction] and holds


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
    """By what arrives in all."""
    return best_first(
        _candidate(
            sorted(group, key=lambda gain: (not gain.facts, -gain.amount)),
            round(math.fsum(gain.amount for gain in group), 9),
        )
        for group in _by_item(gains)
    )


def _nearest(gains: Iterator[_Gain]) -> list[Candidate]:
    """By the nearest path; what is equally near by the first seed that leads there, then by id."""
    nearest = [
        sorted(group, key=lambda gain: (-gain.amount, gain.seed, gain.path))
        for group in _by_item(gains)
    ]
    ordered = sorted(nearest, key=lambda group: (-group[0].amount, group[0].seed, group[0].item))
    return [_candidate(group, group[0].amount) for group in ordered]


def _by_item(gains: Iterator[_Gain]) -> list[list[_Gain]]:
    group: defaultdict[ItemId, list[_Gain]] = defaultdict(list)
    for gain in gains:
        group[gain.item].append(gain)
    return list(group.values())


def _candidate(group: list[_Gain], score: float) -> Candidate:
    facts = dict.fromkeys(fact for gain in group for fact in gain.facts)
    return Candidate(group[0].item, score, group[0].path, tuple(facts))
