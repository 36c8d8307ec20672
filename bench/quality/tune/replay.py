"""Replays the ranking of the service under any profile, from the lists of its legs.

The rules are the service's own: `serving.domain.ranking.fusion`, `serving.domain.ranking.signals`
and `serving.pipeline.retrieval.ordering`. That they are given the same is proved before anything is
tried: under the profile that the search starts with, the order made here must be the
service's answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache

from bench.quality.scoring.metrics import DEPTH
from bench.quality.tune.leg_queries import Asked
from bench.quality.tune.lists import Found, Lists
from serving.adapters.text_analysis.english_dates import EnglishDates
from serving.domain.items.records import Fact, Item, ItemId
from serving.domain.items.text import text_of
from serving.domain.ranking.diversity import jaccard, words_of
from serving.domain.ranking.fusion import Fused, fuse
from serving.domain.ranking.profile import Profile, Sort
from serving.domain.ranking.ranked_list import RankedList
from serving.domain.ranking.signals import SIGNALS, Known, Named, Traits, ranked_by
from serving.pipeline.retrieval.ordering import Hit, Ordering
from serving.ports.text_analysis import DateReader

LEAST_AGREEMENT = 0.99
"""Below this share of answers ordered as the service orders them nothing is tuned."""

FOLDED_AT_ONCE = 2
"""Times the limit. Near-duplicates are looked for among so many hits, and among more only if
these do not fill the answer: which of the first stand for others is not up to those behind them."""


KEPT_SIGNALS = 4
"""Of how many choices of lists a question keeps the signals: profile after profile has the same
lists while weights are tried, and to keep those of all would take gigabytes."""


class Replay:
    """One question, ranked under profile after profile."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self._lists = Lists(found)
        text = found.query.text
        self._named = Named.of(text, _dates().periods(text, found.as_of))
        self._signals: dict[object, list[RankedList]] = {}
        self._alike: dict[float, AbstractSet[ItemId]] = {}

    def hits(self, profile: Profile) -> Sequence[Hit]:
        """What the service would answer."""
        fused = self.fused(profile)
        if not self._may_fold(profile, fused):
            return self._ordered(replace(profile, fold_from=None), fused).hits()
        if not _folds_what_age_reordered(profile):
            return self._ordered(profile, fused).hits()
        aged = self._ordered(replace(profile, fold_from=None), fused).before_the_cut()
        by_item = {one.item: one for one in fused}
        in_order = [by_item[hit.item.item] for hit in aged]
        count = FOLDED_AT_ONCE * profile.limit
        while True:
            hits = self._ordered(profile, in_order[:count]).hits()
            if len(hits) == profile.limit or count >= len(in_order):
                return hits
            count *= 2

    def hits_once(self, profile: Profile) -> Sequence[Hit]:
        """The same, for who ranks under one profile only: nothing is kept for others."""
        return self._ordered(profile, self.fused(profile)).hits()

    def fused(self, profile: Profile) -> list[Fused]:
        """All candidates of the legs, fused with the signals."""
        lists = self._lists.of(profile)
        return fuse(
            [*lists, *self._ranked_by_signals(profile, lists)],
            weights=profile.weights,
            method=profile.fusion,
            rank_constant=profile.rank_constant,
            rank_style=profile.rank_style,
            least_scores=profile.least_scores,
        )

    def scores(self, profile: Profile) -> dict[ItemId, float]:
        """The score of all that is brought and not folded."""
        ordering = self._ordered(profile, self.fused(profile), thorough=True)
        return {hit.item.item: hit.score for hit in ordering.before_the_cut()}

    def ranked(self, profile: Profile, depth: int = DEPTH) -> list[str]:
        """The ids of segments in the order of hits, each fact as its evidence."""
        return segments_of(self.hits(profile))[:depth]

    def has_to_say(self) -> frozenset[str]:
        """The legs that find anything, and the signals that rank any of it, in whatever profile."""
        found = self.found
        deep = {leg for leg, candidates in found.deep.items() if candidates}
        led_on = {leg for leg, lists in found.led_on.items() if any(lists.values())}
        return frozenset(deep | led_on | {name for name in SIGNALS if self._is_told_by(name)})

    def _is_told_by(self, signal: str) -> bool:
        value, rows = SIGNALS[signal], self.found.rows
        known = (
            Known(Traits.of(rows[item]), self._named) for item in self.found.items if item in rows
        )
        return any(value(each) is not None for each in known)

    def _may_fold(self, profile: Profile, fused: Sequence[Fused]) -> bool:
        """Whether two of the candidates are near-duplicates: to look costs more than to fuse."""
        if profile.fold_from is None:
            return False
        if profile.fold_from not in self._alike:
            rows = (self.found.rows.get(item) for item in set(self.found.items))
            present = [row for row in rows if row is not None]
            self._alike[profile.fold_from] = near_duplicates(present, profile.fold_from)
        alike = self._alike[profile.fold_from]
        return sum(one.item in alike for one in fused) > 1

    def _ordered(
        self, profile: Profile, fused: Sequence[Fused], *, thorough: bool = False
    ) -> Ordering:
        ordering = Ordering(profile, self.found.scope, fused, thorough=thorough)
        while batch := ordering.next_to_load():
            ordering.take(batch, self.found.rows)
        return ordering

    def _ranked_by_signals(
        self, profile: Profile, lists: Sequence[RankedList]
    ) -> Sequence[RankedList]:
        names = tuple(signal.name for signal in profile.signals if signal.weight)
        if not names:
            return ()
        # Lists are made once, so which they are says what is in them.
        key = (names, *map(id, lists))
        if key not in self._signals:
            if len(self._signals) == KEPT_SIGNALS:
                del self._signals[next(iter(self._signals))]
            self._signals[key] = self._make_signals(names, lists)
        return self._signals[key]

    def _make_signals(self, names: Sequence[str], lists: Sequence[RankedList]) -> list[RankedList]:
        items = dict.fromkeys(each.item for ranked in lists for each in ranked.candidates)
        rows = self.found.rows
        known = [Known(Traits.of(rows[item]), self._named) for item in items if item in rows]
        return [ranked_by(name, known) for name in names]


@cache
def _dates() -> DateReader:
    return EnglishDates()


def near_duplicates(rows: Sequence[Item], threshold: float) -> set[ItemId]:
    """The items that could be folded into another of them, or stand for one, in some order.

    Args:
        rows: The items, none twice.
        threshold: The word overlap (Jaccard) from which two are one.
    """
    words = [(words_of(text_of(row)), row.item) for row in rows]
    words.sort(key=lambda each: len(each[0]))
    found: set[ItemId] = set()
    for place, (fewer, item) in enumerate(words):
        for more, other in words[place + 1 :]:
            if len(fewer) < threshold * len(more):
                break  # the overlap is at most the ratio of the sizes
            if jaccard(fewer, more) >= threshold:
                found |= {item, other}
    return found


def _folds_what_age_reordered(profile: Profile) -> bool:
    """Whether all is read, and only the first need be compared with each other."""
    return (
        profile.decay is not None
        and profile.fold_from is not None
        and profile.diversity is None
        and profile.sort is Sort.RELEVANCE
        and not any(leg.reserved for leg in profile.legs)
    )


def segments_of(hits: Sequence[Hit]) -> list[str]:
    """The ids of segments in the order of hits, each fact as its evidence, none twice."""
    return list(dict.fromkeys(id_ for hit in hits for id_ in _segments_of(hit.item)))


def _segments_of(item: Item) -> Sequence[str]:
    return item.evidence if isinstance(item, Fact) else (item.id,)


# ---------------------------------------------------------------- the proof


class ProofError(Exception):
    """Too few answers are ordered as the service orders them; the message says which are not."""


@dataclass(frozen=True, slots=True)
class Proof:
    """How many answers are ordered as the service orders them, and which are not, by set and id."""

    asked: int
    differing: Sequence[tuple[str, str]]

    @property
    def agreed(self) -> int:
        """How many agree."""
        return self.asked - len(self.differing)

    @property
    def share(self) -> float:
        """How many of all agree."""
        return self.agreed / self.asked

    def __str__(self) -> str:
        return f"{self.agreed} of {self.asked} answers ({self.share:.1%}) are the service's own"


SHOWN = 5


def prove(asked: Sequence[Asked], profile: Profile) -> Proof:
    """Compares the order made here with the service's answers, under the profile it was asked by.

    Args:
        asked: At least one question.
        profile: The one that the answers are of.

    Raises:
        ProofError: Fewer than `LEAST_AGREEMENT` agree.
    """
    differing = [
        (each.found.set, each.found.query.id) for each in asked if not agrees(each, profile)
    ]
    proof = Proof(len(asked), differing)
    if proof.share < LEAST_AGREEMENT:
        shown = ", ".join(f"{id_} of {set_}" for set_, id_ in differing[:SHOWN])
        raise ProofError(
            f"only {proof}, and {LEAST_AGREEMENT:.0%} must be: what is worked out here would say "
            f"nothing of the service. Other answers have {shown}"
        )
    return proof


def agrees(asked: Asked, profile: Profile) -> bool:
    """Whether the order made here is that of the service's answer, but for what scores the same.

    Args:
        asked: What the legs find, and the answer.
        profile: The one that the answer is of.
    """
    replay, answer = Replay(asked.found), asked.answer
    ours = [hit.item.item for hit in replay.hits(profile)]
    if ours == list(answer):
        return True
    scores = replay.scores(profile)
    return len(ours) == len(answer) and all(
        scores[mine] == scores.get(theirs) for mine, theirs in zip(ours, answer, strict=True)
    )
