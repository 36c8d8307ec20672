"""Explains why a leg did not find an item, by running it with more depth and fewer restrictions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

from serving.domain.budget import Deadline
from serving.domain.errors import AllLegsFailedError
from serving.domain.items.records import Item, ItemId, Segment
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsMode
from serving.domain.ranking.profile import MAX_DEPTH, LegSpec, Profile
from serving.domain.ranking.ranked_list import RankStyle
from serving.pipeline.retrieval.leg_runner import LegResult, LegState
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.trace import Tracer


class Miss(StrEnum):
    """Why a leg did not find an item."""

    NONE = "none"
    """It found it."""
    UNANSWERED = "unanswered"
    """It did not answer, then or with more depth."""
    BELOW = "below"
    """Below its depth or its floor."""
    HIDDEN = "hidden"
    """A restriction excludes it: the lookback, the pool, or how words are matched."""
    NEVER = "never"
    """It does not find it at any depth; or the profile gives it no weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegAbsence:
    """How the item fared in one leg.

    Attributes:
        leg: The leg.
        state: How the leg ended in the retrieval that is explained.
        rank: The item's rank with the greatest depth and no floor and, if it is found only then,
            without lookback and pool; None if it is not found even so.
        score: The leg's score of it there.
        depth: The leg's depth.
        reason: Why the leg did not find it; empty if it did.
        miss: The reason as an enum.
    """

    leg: str
    state: LegState
    rank: float | None
    score: float | None
    depth: int
    reason: str
    miss: Miss


class LegAbsenceExplainer:
    """Runs the legs of a profile with more depth and fewer restrictions than the profile has."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    async def explain(
        self,
        query: Query,
        profile: Profile,
        row: Item,
        results: Sequence[LegResult],
        deadline: Deadline,
    ) -> tuple[LegAbsence, ...]:
        """Explains, for each leg in the profile's order, how an item fared.

        Raises:
            StoreUnavailableError: A leg could not reach PostgreSQL.
        """
        deep = {leg.name: _as_deep_as_can_be(leg) for leg in profile.legs if leg.weight}
        after = await self._run(query, profile, deep, deadline)
        hidden_by: dict[str, str] = {}
        for lifts in _COMBINED_LIFTS:
            missing = [name for name in deep if not _finds(after.get(name), row.item)]
            freer = {name: _freer(deep[name], lifts) for name in missing}
            wanted = {name: each for name, each in freer.items() if each is not None}
            legs = {name: each.leg for name, each in wanted.items()}
            found = await self._run(query, profile, legs, deadline)
            for name in (name for name in found if _finds(found[name], row.item)):
                after[name], hidden_by[name] = found[name], wanted[name].why
        return tuple(
            _leg_absence(row, leg, profile, before, after.get(leg.name), hidden_by.get(leg.name))
            for leg, before in zip(profile.legs, results, strict=True)
        )

    async def _run(
        self, query: Query, profile: Profile, changed: Mapping[str, LegSpec], deadline: Deadline
    ) -> dict[str, LegResult]:
        """Returns what these legs find with changed specs; nothing for one that failed.

        Their upstream legs stay as in the profile, because other candidates of theirs would change
        the result. So a leg that others depend on runs in a round of its own.
        """
        leaned_on = {name for leg in profile.legs for name in leg.leans_on}
        rounds = [changed.keys() - leaned_on, *({name} for name in changed.keys() & leaned_on)]
        found: dict[str, LegResult] = {}
        for names in filter(None, rounds):
            legs = tuple(
                changed[leg.name] if leg.name in names else _unless_needed(leg, leaned_on)
                for leg in profile.legs
            )
            with contextlib.suppress(AllLegsFailedError):
                asked = replace(profile, legs=legs, rerank=None)
                results = await self._tracer.run_legs(query, asked, deadline)
                found |= {
                    result.report.leg: result for result in results if result.report.leg in names
                }
        return found


def _unless_needed(leg: LegSpec, needed: Collection[str]) -> LegSpec:
    """Returns the leg unchanged if others need it, else without weight, so that it is skipped."""
    return leg if leg.name in needed else replace(leg, weight=0)


def _as_deep_as_can_be(leg: LegSpec) -> LegSpec:
    return replace(leg, depth=MAX_DEPTH, depth_per_limit=0, floor=None)


class _Freer(NamedTuple):
    """A leg without a restriction, and the explanation if it finds the item only then."""

    leg: LegSpec
    why: str


def _without_lookback(leg: LegSpec) -> _Freer | None:
    if leg.lookback is None:
        return None
    days = leg.lookback / timedelta(days=1)
    back = f"{days:g} day{'' if days == 1 else 's'}"
    return _Freer(
        replace(leg, lookback=None), f"the item is further back than the lookback of {back}"
    )


def _without_pool(leg: LegSpec) -> _Freer | None:
    if leg.pool is None:
        return None
    why = f"the item is not among the {leg.pool.recently_accessed} accessed last"
    if leg.pool.joined_by:
        why += f", and not found by {' or '.join(leg.pool.joined_by)}"
    return _Freer(replace(leg, pool=None), why)


def _without_gate(leg: LegSpec) -> _Freer | None:
    if leg.words.mode is not WordsMode.ALL_THEN_ANY:
        return None
    gate = f"{leg.words.rank_gate:g}"
    why = f"the item has some of the words, and its rank is not above the gate of {gate}"
    return _Freer(replace(leg, words=replace(leg.words, rank_gate=0.0)), why)


def _with_any_word(leg: LegSpec) -> _Freer | None:
    if leg.words.mode is not WordsMode.ALL_THEN_ANY:
        return None
    why = "the item has some of the words, and enough others have all of them"
    return _Freer(replace(leg, words=replace(leg.words, mode=WordsMode.ANY)), why)


def _at_any_time(leg: LegSpec) -> _Freer | None:
    if not leg.named_times:
        return None
    return _Freer(
        replace(leg, named_times=False), "the item is not of a time that the question names"
    )


_Lift = Callable[[LegSpec], _Freer | None]
_LIFTS: Sequence[_Lift] = (
    _without_lookback,
    _without_pool,
    _without_gate,
    _with_any_word,
    _at_any_time,
)
_COMBINED_LIFTS = [*combinations(_LIFTS, 1), *combinations(_LIFTS, 2)]
"""The restrictions that may exclude an item: one, or two at once."""


def _freer(leg: LegSpec, lifts: Sequence[_Lift]) -> _Freer | None:
    """Returns the leg without these restrictions; None if it does not have them all."""
    whys = []
    for lift in lifts:
        freer = lift(leg)
        if freer is None:
            return None
        leg = freer.leg
        whys.append(freer.why)
    return _Freer(leg, ", and ".join(whys))


def _finds(result: LegResult | None, item: ItemId) -> bool:
    return result is not None and any(candidate.item == item for candidate in result.candidates)


def _leg_absence(
    row: Item,
    spec: LegSpec,
    profile: Profile,
    before: LegResult,
    after: LegResult | None,
    hidden_by: str | None,
) -> LegAbsence:
    rank, score = _rank(row.item, after, profile.rank_style)
    depth = spec.depth_for(profile.limit)
    miss, reason = Miss.BELOW, f"rank {rank:g} is below the depth {depth}" if rank else ""
    if _finds(before, row.item):
        miss, reason = Miss.NONE, ""
    elif not spec.weight:
        miss, reason = Miss.NEVER, before.report.reason
    elif not before.report.state.answered:
        miss, reason = _why_unanswered(before)
    elif score is None:
        miss, reason = _why_never(row, spec, after)
    elif hidden_by is not None:
        miss, reason = Miss.HIDDEN, hidden_by
    elif spec.floor is not None and score < spec.floor:
        reason = f"score {score:.4g} is below the floor {spec.floor:g}"
    return LegAbsence(
        leg=spec.name,
        state=before.report.state,
        rank=rank,
        score=score,
        depth=depth,
        reason=reason,
        miss=miss,
    )


def _why_unanswered(result: LegResult) -> tuple[Miss, str]:
    return Miss.UNANSWERED, result.report.reason or result.report.state.value


def _rank(
    item: ItemId, result: LegResult | None, style: RankStyle
) -> tuple[float | None, float | None]:
    """Returns the item's rank in a leg's result, from 1, and its score; None if it is not there."""
    if result is not None and result.ranked is not None:
        ranked = result.ranked
        for candidate, rank in zip(ranked.candidates, ranked.ranks(style), strict=True):
            if candidate.item == item:
                return rank, candidate.score
    return None, None


def _why_never(row: Item, spec: LegSpec, after: LegResult | None) -> tuple[Miss, str]:
    """Explains why a leg does not find the item at any depth, or that this is unknown."""
    if row.sensitive and not LEGS[spec.name].finds_sensitive:
        found_by = "words only" if isinstance(row, Segment) else "no leg"
        return Miss.NEVER, f"the item is sensitive, and so found by {found_by}"
    if after is None:
        return Miss.UNANSWERED, "no answer to a deeper search"
    if not after.report.state.answered:
        _, ended = _why_unanswered(after)
        return Miss.UNANSWERED, f"no answer to a deeper search: {ended}"
    seeding = " and ".join(spec.walk.seeds_from)
    start = f", from what {seeding} found" if seeding else ""
    return Miss.NEVER, f"not among its best {MAX_DEPTH}{start}"
