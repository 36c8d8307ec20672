"""The entities of a tenant in memory, and the default walk over them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

from serving.domain.items.instants import AFTER_ALL, BEFORE_ALL, microseconds
from serving.domain.items.records import Fact, Segment
from serving.domain.items.text import name_key
from serving.domain.items.validity import Clocks, final_end
from serving.domain.questions.filters import passes
from serving.domain.questions.named_entities import (
    FUZZY_FROM_LETTERS,
    NamedSpan,
    content_words,
    entity_key,
    entity_words,
    near_spans,
    one_letter_apart,
    question_spans,
)
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.ranking.walk import (
    FACTS_PER_ENTITY,
    FACTS_PER_SEED,
    FACTS_PER_SEED_FILTERED,
    HOP_DECAY,
    MAX_ROWS,
    MAX_SEEDS,
    MAX_TRAILS,
    MIN_FAN_OUT,
    NESTED_NAME,
    REACHED_MENTIONS,
    Step,
    Trail,
    reached,
)

T = TypeVar("T")


class Entity:
    """An entity, with what mentions it, what it is, and its facts; each in the order of writing."""

    __slots__ = ("key", "links", "mentions", "name", "stands_for", "words")

    def __init__(self, key: str, name: str) -> None:
        words = entity_words(name)
        self.key = key
        self.name = key if name == key else name
        self.words = key if words == key else words
        self.mentions: Sequence[Turn] = ()
        self.stands_for: Sequence[Turn] = ()
        self.links: Sequence[Link] = ()

    @property
    def is_used(self) -> bool:
        """Whether an item refers to it."""
        return bool(self.mentions or self.stands_for or self.links)


def _with(some: Sequence[T], another: T) -> Sequence[T]:
    """These and another, in place if there are some; of an entity, most lists are empty."""
    if isinstance(some, list):
        some.append(another)
        return some
    return [another]


def _without(some: Sequence[T], one: T) -> Sequence[T]:
    """These without one of them."""
    return [each for each in some if each != one]


@dataclass(slots=True, eq=False)
class Turn:
    """A segment, its time in microseconds, and the entities that it mentions and is."""

    segment: Segment
    at: int
    mentions: tuple[Entity, ...] = ()
    entity: Entity | None = None


class Relation:
    """A fact between two entities, and when it holds as far as is known now, in microseconds."""

    __slots__ = ("fact", "object", "since", "subject", "until")

    def __init__(self, fact: Fact, subject: Entity, object_: Entity) -> None:
        self.fact = fact
        self.subject = subject
        self.object = object_
        end = final_end(fact.searched_until, fact.closings)
        self.since = BEFORE_ALL if fact.valid_from is None else microseconds(fact.valid_from)
        self.until = AFTER_ALL if end is None else microseconds(end)
        if fact.retracted_at is not None:
            self.until = BEFORE_ALL

    @property
    def links(self) -> tuple[tuple[Entity, Link], tuple[Entity, Link]]:
        """The entities, each with its link over the fact to the other one."""
        forward, backward = Link(self, self.object, True), Link(self, self.subject, False)
        return (self.subject, forward), (self.object, backward)


class Link(NamedTuple):
    """A fact as seen from one of its entities, and the entity at the other end."""

    relation: Relation
    end: Entity
    forward: bool


class _Gain(NamedTuple):
    """The gain that a seed passes on to a turn, and the facts on the way."""

    turn: Turn
    amount: float
    seed: Entity
    links: tuple[Link, ...] = ()
    cited: bool = False

    def trail(self) -> Trail:
        steps = tuple(
            Step(each.relation.fact.id, each.relation.fact.relation, each.forward, each.end.name)
            for each in self.links
        )
        return Trail(self.amount, self.seed.name, steps, self.cited)


class _Seed(NamedTuple):
    """An entity that a question names, with its activation."""

    entity: Entity
    activation: float

    @property
    def share(self) -> float:
        """The share of each of its mentions."""
        return self.activation / math.sqrt(len(self.entity.mentions))


class Entities:
    """The entities of a tenant, over its segments and facts, none of which is hidden."""

    def __init__(self) -> None:
        self.turns: dict[str, Turn] = {}
        self.relations: dict[str, Relation] = {}
        self._entities: dict[str, Entity] = {}
        self._by_words: dict[str, Sequence[Entity]] = {}
        self._near = NearNames()

    # ------------------------------------------------------------ changing

    def put_segment(self, segment: Segment) -> None:
        """Adds or replaces a segment; what it still mentions keeps its place."""
        at = microseconds(segment.event_time)
        turn = self.turns.setdefault(segment.id, Turn(segment, at))
        turn.segment, turn.at = segment, at
        names = (*segment.entities, segment.speaker)
        mentions = {entity_key(name): name for name in names if name_key(name)}
        entity = segment.entity if name_key(segment.entity) else None
        self._refer(
            turn,
            tuple(self._entity(*each) for each in mentions.items()),
            None if entity is None else self._entity(entity_key(entity), entity),
        )

    def remove_segment(self, id_: str) -> None:
        """Removes a segment, if there is one."""
        if (turn := self.turns.pop(id_, None)) is not None:
            self._refer(turn, (), None)

    def _refer(self, turn: Turn, mentions: tuple[Entity, ...], entity: Entity | None) -> None:
        """Replaces the entities that a turn mentions, and the one that it is."""
        former = [*turn.mentions, *([turn.entity] if turn.entity else [])]
        for each in turn.mentions:
            if each not in mentions:
                each.mentions = _without(each.mentions, turn)
        for each in mentions:
            if each not in turn.mentions:
                each.mentions = _with(each.mentions, turn)
        if turn.entity is not entity:
            if turn.entity is not None:
                turn.entity.stands_for = _without(turn.entity.stands_for, turn)
            if entity is not None:
                entity.stands_for = _with(entity.stands_for, turn)
        turn.mentions, turn.entity = mentions, entity
        self._drop_unused(former)

    def put_fact(self, fact: Fact) -> None:
        """Adds or replaces a fact."""
        former = self.relations.pop(fact.id, None)
        ends = (self._entity(entity_key(name), name) for name in (fact.subject, fact.object))
        relation = self.relations[fact.id] = Relation(fact, *ends)
        for entity, link in relation.links:
            entity.links = _with(entity.links, link)
        if former is not None:
            self._unlink(former)

    def remove_fact(self, id_: str) -> None:
        """Removes a fact, if there is one."""
        if (relation := self.relations.pop(id_, None)) is not None:
            self._unlink(relation)

    def _unlink(self, relation: Relation) -> None:
        for entity, link in relation.links:
            entity.links = _without(entity.links, link)
        self._drop_unused([relation.subject, relation.object])

    def _entity(self, key: str, name: str) -> Entity:
        entity = self._entities.get(key)
        if entity is None:
            entity = self._entities[key] = Entity(key, name)
            if entity.words not in self._by_words:
                self._near.add(entity.words)
            self._by_words[entity.words] = _with(self._by_words.get(entity.words, ()), entity)
        return entity

    def _drop_unused(self, entities: Iterable[Entity]) -> None:
        for entity in entities:
            if not entity.is_used and self._entities.pop(entity.key, None) is not None:
                same = _without(self._by_words.pop(entity.words), entity)
                if same:
                    self._by_words[entity.words] = same
                else:
                    self._near.discard(entity.words)

    # ------------------------------------------------------------ walking

    def walk(self, query: Query, depth: int) -> list[Candidate]:
        """Walks as `Neo4jGraph.search` does by default, and finds segments, best first.

        Where that reads a part of what an entity has (`domain.ranking.walk`), this reads what was
        written last.
        """
        seeds = self._seeds(question_spans(query.text))
        seeds = seeds or self._seeds(near_spans(query.text, self._near.names(query.text)))
        if not seeds:
            return []
        fan_out = max(MIN_FAN_OUT, depth)
        gains = islice(self._gains(seeds, query.scope, fan_out), max(MAX_ROWS, 4 * depth))
        of_turns: defaultdict[Turn, list[_Gain]] = defaultdict(list)
        for gain in gains:
            of_turns[gain.turn].append(gain)
        hubs = [(each.entity, each.share) for each in seeds if len(each.entity.mentions) > fan_out]
        scores = {turn: _score(turn, gains, hubs) for turn, gains in of_turns.items()}
        best = sorted(scores, key=lambda turn: (-scores[turn], turn.segment.id))[:depth]
        return [
            reached(
                turn.segment.item,
                scores[turn] / 1e9,
                [gain.trail() for gain in of_turns[turn][:MAX_TRAILS]],
            )
            for turn in best
        ]

    def _seeds(self, spans: Sequence[NamedSpan]) -> list[_Seed]:
        named = [(each, span) for span in spans for each in self._by_words.get(span.words, ())]
        named = named[:MAX_SEEDS]
        within = [span for _, span in named]
        return [
            _Seed(entity, span.weight * (NESTED_NAME if span.is_nested_in(within) else 1.0))
            for entity, span in named
        ]

    def _gains(self, seeds: Sequence[_Seed], scope: Scope, fan_out: int) -> Iterator[_Gain]:
        visible = visible_in(scope)
        holds = _holding(scope.clocks)
        most = FACTS_PER_SEED_FILTERED if scope.filter.restricts else FACTS_PER_SEED
        for seed in seeds:
            entity = seed.entity
            share = seed.share if 0 < len(entity.mentions) <= fan_out else 0.0
            for turn in islice(filter(visible, reversed(entity.mentions)), fan_out):
                yield _Gain(turn, share, entity)
            for turn in islice(filter(visible, reversed(entity.stands_for)), fan_out):
                yield _Gain(turn, seed.activation, entity)
            if entity.links:
                yield from self._gains_over_facts(seed, most, visible, holds)

    def _gains_over_facts(
        self,
        seed: _Seed,
        most: int,
        visible: Callable[[Turn], bool],
        holds: Callable[[Relation], bool],
    ) -> Iterator[_Gain]:
        entity = seed.entity
        spread = seed.activation / math.sqrt(len(entity.links))
        followed = (
            (spread * link.relation.fact.weight, link)
            for link in reversed(entity.links)
            if link.end is not entity and holds(link.relation)
        )
        walks = list(islice(followed, most))
        for share, link in walks:
            for turn in filter(visible, self._evidence(link)):
                yield _Gain(turn, share, entity, (link,), True)
        for share, link in walks:
            for turn in filter(visible, reversed(link.end.stands_for)):
                yield _Gain(turn, share, entity, (link,))
        for share, link in walks:
            mentions = link.end.mentions
            if 0 < len(mentions) <= REACHED_MENTIONS:
                amount = HOP_DECAY * share / math.sqrt(len(mentions))
                for turn in filter(visible, reversed(mentions)):
                    yield _Gain(turn, amount, entity, (link,))
        for share, first in walks:
            onward = first.end.links
            if len(onward) < 2:
                continue
            further = (
                link
                for link in reversed(onward)
                if link.relation is not first.relation
                and link.end is not first.end
                and link.end is not entity
                and holds(link.relation)
            )
            for link in islice(further, FACTS_PER_ENTITY):
                amount = HOP_DECAY * share * link.relation.fact.weight / math.sqrt(len(onward))
                for turn in filter(visible, self._evidence(link)):
                    yield _Gain(turn, amount, entity, (first, link), True)
                for turn in filter(visible, reversed(link.end.stands_for)):
                    yield _Gain(turn, amount, entity, (first, link))

    def _evidence(self, link: Link) -> Iterator[Turn]:
        """The turns that support a fact, of those that are stored."""
        for id_ in dict.fromkeys(link.relation.fact.evidence):
            if (turn := self.turns.get(id_)) is not None:
                yield turn


def _score(turn: Turn, gains: Sequence[_Gain], hubs: Sequence[tuple[Entity, float]]) -> int:
    """The sum in whole billionths, so that the order of the gains cannot change it.

    `hubs` are the seeds whose mentions gained nothing, being many; each with its share.
    """
    score = sum([gain.amount for gain in gains])
    for entity, share in hubs:
        if entity in turn.mentions:
            score += share
    return math.floor(1e9 * score + 0.5)


def visible_in(scope: Scope) -> Callable[[Turn], bool]:
    """Whether a scope has a turn; asked once for each."""
    filter_, as_of = scope.segment_filter, microseconds(scope.as_of)
    if not filter_.restricts:
        return lambda turn: turn.at <= as_of
    condition = filter_.condition
    known: dict[Turn, bool] = {}

    def visible(turn: Turn) -> bool:
        if turn not in known:
            known[turn] = turn.at <= as_of and passes(turn.segment, condition)
        return known[turn]

    return visible


def _holding(clocks: Clocks) -> Callable[[Relation], bool]:
    if clocks.known_at is not None:
        return lambda relation: relation.fact.holds(clocks)
    as_of = microseconds(clocks.as_of)
    return lambda relation: relation.since <= as_of < relation.until


class NearNames:
    """Names by their words, each of which is found though a letter differs."""

    def __init__(self) -> None:
        self._names_of: dict[str, Sequence[str]] = {}
        self._alike: defaultdict[str, list[str]] = defaultdict(list)
        """Long words by their first two letters and by their last two.

        A word of four letters and more that differs by one letter has one of both.
        """

    def add(self, name: str) -> None:
        """Adds a name, as `entity_words` writes it."""
        for word in content_words(name):
            if word not in self._names_of:
                for key in _ends(word):
                    self._alike[key].append(word)
            self._names_of[word] = _with(self._names_of.get(word, ()), name)

    def discard(self, name: str) -> None:
        """Removes a name that was added."""
        for word in content_words(name):
            names = _without(self._names_of.pop(word), name)
            if names:
                self._names_of[word] = names
                continue
            for key in _ends(word):
                self._alike[key].remove(word)

    def names(self, question: str) -> set[str]:
        """The names that have a word of the question, or one that differs by a letter."""
        found: set[str] = set()
        for word in content_words(question):
            found.update(self._names_of.get(word, ()))
            for other in {each for key in _ends(word) for each in self._alike.get(key, ())}:
                if one_letter_apart(other, word):
                    found.update(self._names_of[other])
        return found


def _ends(word: str) -> set[str]:
    return {f"{word[:2]}-", f"-{word[-2:]}"} if len(word) >= FUZZY_FROM_LETTERS else set()
