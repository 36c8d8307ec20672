"""Replays the ranking of the service under any profile, from the lists of its legs.

The rules are the service's own (`serving.domain.ranking`, `serving.pipeline.retrieval.ordering`).
Before anything is tried, the replay must reproduce the service's answers under the profile that
the search starts with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bench.quality.scoring.answers import DEPTH
from bench.quality.tune.leg_lists import LegLists
from serving.adapters.text_analysis.english_dates import EnglishDates
from serving.domain.items.records import ItemId, segment_id
from serving.domain.questions.query import Query
from serving.domain.ranking.fusion import fuse
from serving.domain.ranking.profile import LegSpec, Profile
from serving.domain.ranking.ranked_list import (
    Candidate,
    RankedList,
    above_floor,
    depth_to_read,
    within_depth,
)
from serving.domain.ranking.repeats import folded, newest_of_repeats, tied
from serving.domain.ranking.signals import Known, Named, Traits, ranked_by
from serving.pipeline.retrieval.legs.facts import FactsLeg, evidence_in_order
from serving.pipeline.retrieval.ordering import Ordering, visible
from serving.pipeline.retrieval.steps import TEXT_LEGS, by_time_alone
from serving.ports.text_analysis import DateReader
from serving.ports.vector_index import IndexAnswer

MIN_AGREEMENT = 0.99
"""Below this share of answers that the replay reproduces, nothing is tuned."""

SHOWN = 5


class Replay:
    """One question, ranked under profile after profile.

    A shorter list of a leg is the head of a longer one, and a floor cuts off its end.
    """

    def __init__(self, found: LegLists) -> None:
        self.found = found
        text = found.query.text
        self._query = Query(scope=found.scope, text=text)
        self._times = _dates().times(text, found.as_of)
        self._named = Named.of(text, self._times.periods)
        self._lists: dict[object, RankedList] = {}
        self._signals: tuple[object, list[RankedList]] = (None, [])

    def hits(self, profile: Profile) -> list[ItemId]:
        """The answer of the service."""
        return [hit.item.item for hit in self._ordered(profile).hits()]

    def scores(self, profile: Profile) -> dict[ItemId, float]:
        """The score of every candidate that is not folded."""
        hits = self._ordered(profile, thorough=True).uncut()
        return {hit.item.item: hit.score for hit in hits}

    def ranked(self, profile: Profile) -> list[str]:
        """The ids of the first hits."""
        hits = self._ordered(profile).hits()
        return [hit.item.id for hit in hits[:DEPTH]]

    def _ordered(self, profile: Profile, *, thorough: bool = False) -> Ordering:
        newest = self._repeats(profile)
        found = [self._list(spec, profile, newest) for spec in profile.legs if spec.weight]
        lists = by_time_alone(profile, found, lambda: self._times)
        fused = fuse(
            [*lists, *self._ranked_by_signals(profile, lists)],
            weights=profile.weights,
            method=profile.fusion,
            rank_constant=profile.rank_constant,
            rank_style=profile.rank_style,
            least_scores=profile.least_scores,
        )
        repeats = [self.found.rows[item] for item in newest]
        ordering = Ordering(profile, self._query, fused, repeats=repeats, thorough=thorough)
        while batch := ordering.next_to_load():
            ordering.add_rows(batch, self.found.rows)
        return ordering

    def _repeats(self, profile: Profile) -> Mapping[ItemId, ItemId]:
        if not profile.fold_repeats:
            return {}
        style = profile.rank_style
        suspects = tied(
            self._read(spec, depth_to_read(spec.depth_for(profile.limit), style))
            for spec in profile.legs
            if spec.weight and spec.name in TEXT_LEGS
        )
        rows = self.found.rows
        return newest_of_repeats(rows[item] for item in suspects if item in rows)

    def _list(self, spec: LegSpec, profile: Profile, newest: Mapping[ItemId, ItemId]) -> RankedList:
        depth, style = spec.depth_for(profile.limit), profile.rank_style
        key = (spec.name, depth, style, spec.floor, frozenset(newest.items()))
        if key not in self._lists:
            read = folded(self._read(spec, depth_to_read(depth, style)), newest)
            self._lists[key] = RankedList(spec.name, tuple(within_depth(read, depth, style)))
        return self._lists[key]

    def _read(self, spec: LegSpec, depth: int) -> Sequence[Candidate]:
        kept, _ = above_floor(self.found.deep[spec.name][:depth], spec.floor)
        if spec.name == FactsLeg.name:
            answer = IndexAnswer(kept, epoch=0, evidence=dict(self._evidence(kept)))
            kept = evidence_in_order(kept, answer)[:depth]
        return kept

    def _evidence(self, facts: Sequence[Candidate]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The segments of each fact but those that the question's clock hides, as an index does."""
        scope, rows = self.found.scope, self.found.rows
        for fact in facts:
            ids = self.found.evidence[fact.item.id]
            with_rows = ((id_, rows.get(segment_id(id_))) for id_ in ids)
            yield (
                fact.item.id,
                tuple(id_ for id_, row in with_rows if row is None or visible(row, scope)),
            )

    def _ranked_by_signals(
        self, profile: Profile, lists: Sequence[RankedList]
    ) -> Sequence[RankedList]:
        names = tuple(signal.name for signal in profile.signals if signal.weight)
        # Each list is made once, so its identity stands for its contents. Profile after profile
        # has the same lists while weights are tried: only the last signals are kept.
        key = (names, *map(id, lists))
        if self._signals[0] != key:
            items = dict.fromkeys(each.item for ranked in lists for each in ranked.candidates)
            rows = self.found.rows
            known = [Known(Traits.of(rows[item]), self._named) for item in items if item in rows]
            self._signals = key, [ranked_by(name, known) for name in names]
        return self._signals[1]


@cache
def _dates() -> DateReader:
    return EnglishDates()


class ReplayError(ValueError):
    """Too few answers are reproduced; the message names some that are not."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many answers are reproduced, and which are not, by set and id."""

    n: int
    differing: Sequence[tuple[str, str]]

    @property
    def share(self) -> float:
        """The share of reproduced answers."""
        return 1 - len(self.differing) / self.n

    def __str__(self) -> str:
        return f"{self.n - len(self.differing)} of {self.n} answers ({self.share:.1%}) agree"


def check_replay(replays: Sequence[Replay], profile: Profile) -> Agreement:
    """Compares the replay with the service's answers under the same profile.

    Raises:
        ReplayError: Fewer than `MIN_AGREEMENT` agree.
    """
    differing = [
        (each.found.set, each.found.query.id) for each in replays if not _agrees(each, profile)
    ]
    agreement = Agreement(len(replays), differing)
    if agreement.share < MIN_AGREEMENT:
        shown = ", ".join(f"{id_} of {set_}" for set_, id_ in differing[:SHOWN])
        raise ReplayError(
            f"only {agreement}, and {MIN_AGREEMENT:.0%} must: the replay says nothing of the "
            f"service. Its answers differ for {shown}"
        )
    return agreement


def _agrees(replay: Replay, profile: Profile) -> bool:
    """Whether the replay is the service's answer, up to the order of equal scores."""
    ours, theirs = replay.hits(profile), list(replay.found.answer)
    if ours == theirs:
        return True
    scores = replay.scores(profile)
    return len(ours) == len(theirs) and all(
        scores.get(mine) == scores.get(other) for mine, other in zip(ours, theirs, strict=True)
    )
