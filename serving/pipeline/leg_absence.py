"""What each leg makes of one item: asked as deep as it can look, and without what restricts it."""

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
from serving.domain.leg_options import WordsMode
from serving.domain.profile import MAX_DEPTH, LegSpec, Profile
from serving.domain.query import Query
from serving.domain.records import Item, ItemId
from serving.pipeline.asking import LegResult, LegState
from serving.pipeline.legs import LEXICAL
from serving.pipeline.retrieve import Retriever


class Miss(StrEnum):
    """Why a leg did not bring an item."""

    NONE = "none"
    """It did."""
    UNANSWERED = "unanswered"
    """It did not answer, then or when it was asked to look deeper."""
    BELOW = "below"
    """Below its depth or its floor."""
    HIDDEN = "hidden"
    """It does not look there: its lookback, its pool, or how it takes words."""
    NEVER = "never"
    """It does not find it, however deep it looks; or the profile silences it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegAbsence:
    """What one leg makes of the item.

    Attributes:
        leg: The leg.
        state: How the leg ended in the retrieval that is explained.
        rank: The item's place if the leg looks as deep as it can and has no floor, and where it
            finds it only then, no lookback and no pool; None if it does not find it even so.
        score: The leg's score of it there.
        depth: How deep it looked.
        reason: Why it did not bring it; empty if it did.
        miss: The same as a value.
    """

    leg: str
    state: LegState
    rank: int | None
    score: float | None
    depth: int
    reason: str
    miss: Miss


class LegInquiry:
    """Asks the legs of a profile for more than the profile lets them find."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    async def ask(
        self,
        query: Query,
        profile: Profile,
        row: Item,
        results: Sequence[LegResult],
        deadline: Deadline,
    ) -> tuple[LegAbsence, ...]:
        """Says of each leg, in the profile's order, what it makes of an item.

        Args:
            query: The question.
            profile: How it was asked.
            row: The item.
            results: What the legs found then.
            deadline: Until when they may be asked again.

        Raises:
            StoreUnavailableError: A leg could not reach PostgreSQL.
        """
        deep = {leg.name: _as_deep_as_can_be(leg) for leg in profile.legs if leg.weight}
        after = await self._asked(query, profile, deep, deadline)
        hidden_by: dict[str, str] = {}
        for lifts in _COMBINED_LIFTS:
            missing = [name for name in deep if not _finds(after.get(name), row.item)]
            freer = {name: _freer(deep[name], lifts) for name in missing}
            wanted = {name: each for name, each in freer.items() if each is not None}
            legs = {name: each.leg for name, each in wanted.items()}
            found = await self._asked(query, profile, legs, deadline)
            for name in (name for name in found if _finds(found[name], row.item)):
                after[name], hidden_by[name] = found[name], wanted[name].why
        return tuple(
            _leg_absence(
                row, leg, profile.limit, before, after.get(leg.name), hidden_by.get(leg.name)
            )
            for leg, before in zip(profile.legs, results, strict=True)
        )

    async def _asked(
        self, query: Query, profile: Profile, changed: Mapping[str, LegSpec], deadline: Deadline
    ) -> dict[str, LegResult]:
        """What these legs find as they are changed; nothing of one that failed.

        Those that they lean on stay as the profile has them, since from other finds they would
        make something else of the item. So a leg that others lean on is asked by itself.
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
                results = await self._retriever.ask_legs(query, asked, deadline)
                found |= {
                    result.report.leg: result for result in results if result.report.leg in names
                }
        return found


def _unless_needed(leg: LegSpec, needed: Collection[str]) -> LegSpec:
    """The leg as it is if others need it; else not to be asked."""
    return leg if leg.name in needed else replace(leg, weight=0)


def _as_deep_as_can_be(leg: LegSpec) -> LegSpec:
    return replace(leg, depth=MAX_DEPTH, depth_per_limit=0, floor=None)


class _Freer(NamedTuple):
    """A leg without a restriction, and what that says of an item which it finds only so."""

    leg: LegSpec
    why: str


def _without_lookback(leg: LegSpec) -> _Freer | None:
    if leg.lookback is None:
        return None
    days = leg.lookback / timedelta(days=1)
    back = f"{days:g} day{'' if days == 1 else 's'}"
    return _Freer(replace(leg, lookback=None), f"it lies further back than its lookback of {back}")


def _without_pool(leg: LegSpec) -> _Freer | None:
    if leg.pool is None:
        return None
    why = f"it is not among the {leg.pool.recently_accessed} accessed last"
    if leg.pool.joined_by:
        why += f", and not found by {' or '.join(leg.pool.joined_by)}"
    return _Freer(replace(leg, pool=None), why)


def _without_gate(leg: LegSpec) -> _Freer | None:
    if leg.words.mode is not WordsMode.ALL_THEN_ANY:
        return None
    why = f"it has some of the words, and its rank is not above the gate of {leg.words.rank_gate:g}"
    return _Freer(replace(leg, words=replace(leg.words, rank_gate=0.0)), why)


def _with_any_word(leg: LegSpec) -> _Freer | None:
    if leg.words.mode is not WordsMode.ALL_THEN_ANY:
        return None
    why = "it has some of the words, and others that have all are enough"
    return _Freer(replace(leg, words=replace(leg.words, mode=WordsMode.ANY)), why)


_Lift = Callable[[LegSpec], _Freer | None]
_LIFTS: Sequence[_Lift] = (_without_lookback, _without_pool, _without_gate, _with_any_word)
_COMBINED_LIFTS = [*combinations(_LIFTS, 1), *combinations(_LIFTS, 2)]
"""What can keep an item from a leg: one restriction, or two at once."""


def _freer(leg: LegSpec, lifts: Sequence[_Lift]) -> _Freer | None:
    """The leg without these restrictions; None if it has not got them all."""
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
    limit: int,
    before: LegResult,
    after: LegResult | None,
    hidden_by: str | None,
) -> LegAbsence:
    place, score = _place(row.item, after)
    depth = spec.depth_for(limit)
    miss, reason = Miss.BELOW, f"its rank {place} is below the depth {depth}"
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
        reason = f"its score {score:.4g} is below the floor {spec.floor:g}"
    return LegAbsence(
        leg=spec.name,
        state=before.report.state,
        rank=place,
        score=score,
        depth=depth,
        reason=reason,
        miss=miss,
    )


def _why_unanswered(result: LegResult) -> tuple[Miss, str]:
    return Miss.UNANSWERED, result.report.reason or result.report.state.value


def _place(item: ItemId, result: LegResult | None) -> tuple[int | None, float | None]:
    """The item's place in what a leg found, from 1, and its score; None if it is not there."""
    for place, candidate in enumerate(result.candidates if result else (), start=1):
        if candidate.item == item:
            return place, candidate.score
    return None, None


def _why_never(row: Item, spec: LegSpec, after: LegResult | None) -> tuple[Miss, str]:
    """Why a leg does not find the item, however deep it looks; or that this is not known."""
    if row.sensitive and spec.name != LEXICAL:
        return Miss.NEVER, "it is sensitive, and so found by words only"
    if after is None:
        return Miss.UNANSWERED, "asked to look deeper, it did not answer"
    if not after.report.state.answered:
        _, ended = _why_unanswered(after)
        return Miss.UNANSWERED, f"asked to look deeper, it did not answer: {ended}"
    start = f", from what {spec.walk.seeds_from} found" if spec.walk.seeds_from else ""
    return Miss.NEVER, f"not among its best {MAX_DEPTH}{start}"
