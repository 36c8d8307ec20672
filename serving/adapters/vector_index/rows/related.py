"""Segments that share mentions with others or are adjacent, and what signals ask of items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from serving.adapters.vector_index.arrays import is_on_host
from serving.adapters.vector_index.rows.tenant_view import TenantView
from serving.domain.items.instants import BEFORE_ALL, microseconds
from serving.domain.items.records import ItemId, ItemKind, segment_id
from serving.domain.items.text import MAX_NAMES_SHOWN, names_entity, words_to_name_by
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.ranking.signals import Traits
from serving.ports.vector_index import Adjacency, Turn

BILLION = 1e9
"""Scores are added as whole billionths, so that their order cannot change a sum."""


class _Sharing(NamedTuple):
    """The share of a seed in each row that mentions one of its entities.

    Ordered by what it gives, the most first, then by the entity's key.
    """

    minus_gain: int
    key: str
    name: str
    seed: int
    rows: Sequence[int]


def related_segments(
    view: TenantView, query: Query, seeds: Sequence[ItemId], depth: int
) -> list[Candidate]:
    """Finds the segments that `Graph.related` finds, of those in the index.

    An entity's name in a path is written as in the first seed that mentions it.
    """
    scope = query.scope
    accepted = view.accepted(view.segments, scope.segment_filter, microseconds(scope.as_of)).mask
    scores: defaultdict[int, int] = defaultdict(int)
    names: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for each in sorted(_shared_with(view, query.text, seeds)):
        for row in each.rows:
            if row != each.seed and accepted[row]:
                scores[row] -= each.minus_gain
                names[row].setdefault(each.key, each.name)
    items = view.segments.columns.items
    best = sorted((-score, items[row], row) for row, score in scores.items())[:depth]
    return [
        Candidate(item, -score / BILLION, ", ".join([*names[row].values()][:MAX_NAMES_SHOWN]))
        for score, item, row in best
    ]


def _shared_with(view: TenantView, question: str, seeds: Iterable[ItemId]) -> Iterator[_Sharing]:
    """The entities of the seeds that the question does not name and others mention too."""
    question_words = words_to_name_by(question)
    segments = dict.fromkeys(item for item in seeds if item.kind is ItemKind.SEGMENT)
    for place, item in enumerate(segments):
        seed = view.segments.row_of(item)
        if seed is None:
            continue
        for key, name in view.segments.columns.mentioned(seed).items():
            rows = view.mentioning(key)
            if len(rows) > 1 and not names_entity(question_words, name):
                yield _Sharing(-int(BILLION / ((place + 2) * len(rows))), key, name, seed, rows)


def traits_of(view: TenantView, items: Iterable[ItemId]) -> dict[ItemId, Traits]:
    """Signal inputs for the items in this index; others are omitted."""
    traits: dict[ItemId, Traits] = {}
    for item in items:
        of_kind = view.of_kind(item.kind)
        row, columns = of_kind.row_of(item), of_kind.columns
        if row is None:
            continue
        if item.kind is ItemKind.SEGMENT:
            since = int(columns.times["event_time"][row])
        elif (since := int(columns.times["valid_from"][row])) == BEFORE_ALL:
            since = int(columns.times["recorded_at"][row])
        stored = columns.vectors[row] if is_on_host(columns.vectors) else None
        traits[item] = Traits(item, since, columns.speaker(row), stored, view.scale)
    return traits


def closed_segments(
    view: TenantView, scope: Scope, items: Iterable[ItemId]
) -> dict[ItemId, tuple[ItemId, ...]]:
    """Segments whose facts are all closed, as `CandidateIndex.closed` returns them."""
    closed = view.closed(scope)
    return {
        item: tuple(map(segment_id, sorted(closed[item.id])))
        for item in items
        if item.kind is ItemKind.SEGMENT and item.id in closed
    }


def adjacent_turns(
    view: TenantView, scope: Scope, items: Iterable[ItemId]
) -> dict[ItemId, Adjacency]:
    """The turns next to those of the items that the view has, as `WholeIndex.adjacent` has them."""
    segments = view.segments
    columns = segments.columns
    accepted = view.accepted(segments, scope.segment_filter, microseconds(scope.as_of)).mask
    found: dict[ItemId, Adjacency] = {}
    for item in items:
        row = segments.row_of(item)
        if row is None:
            continue
        before, after = (
            Turn(columns.items[at], bool(columns.asks[at]))
            if at is not None and accepted[at]
            else None
            for at in segments.adjacent(row)
        )
        found[item] = Adjacency(bool(columns.asks[row]), before, after)
    return found
