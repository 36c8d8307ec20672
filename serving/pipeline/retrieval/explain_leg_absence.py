"""Explains why a leg did not find an item, by running it with more depth and fewer restrictions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from serving.domain.budget import Deadline
from serving.domain.errors import AllLegsFailedError
from serving.domain.items.records import Item, ItemId, Segment
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsMode
from serving.domain.ranking.profile import MAX_DEPTH, LegSpec, Profile
from serving.domain.ranking.ranked_list import RankStyle
from serving.pipeline.retrieval.leg_runner import LegResult, LegState
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.order.loss import Loss
from serving.pipeline.retrieval.steps import RetrievalSteps


@dataclass(frozen=True, slots=True, kw_only=True)
class LegAbsence:
    """The outcome of the item in one leg, which has a `state` in the retrieval that is explained.

    `rank` and `score` are those with the greatest depth and no floor and, if it is found only then,
    without lookback, pool and the like; None if it is not found even so. `reason` and `loss` say
    why the leg did not find it.
    """

    leg: str
    state: LegState
    rank: float | None
    score: float | None
    depth: int
    reason: str
    loss: Loss


async def explain_legs(
    steps: RetrievalSteps,
    query: Query,
    profile: Profile,
    row: Item,
    results: Sequence[LegResult],
    deadline: Deadline,
) -> tuple[LegAbsence, ...]:
    """Explains, for each leg in the profile's order, how an item fared.

    `query` is the one that the legs ran, and `results` what they found.

    Raises:
        StoreUnavailableError: A leg could not reach PostgreSQL.
    """
    deep = {
        leg.name: replace(leg, depth=MAX_DEPTH, depth_per_limit=0, floor=None)
        for leg in profile.legs
        if leg.weight
    }
    after = await _run(steps, query, profile, deep, deadline)
    missing = [name for name in deep if not _finds(after.get(name), row.item)]
    freed = {name: _freed(deep[name]) for name in missing}
    freer = {name: leg for name, (leg, why) in freed.items() if why}
    found = await _run(steps, query, profile, freer, deadline)
    hiding = [name for name, result in found.items() if _finds(result, row.item)]
    after |= {name: found[name] for name in hiding}
    hidden_by = {name: freed[name][1] for name in hiding}
    return tuple(
        _leg_absence(row, leg, profile, before, after.get(leg.name), hidden_by.get(leg.name))
        for leg, before in zip(profile.legs, results, strict=True)
    )


async def _run(
    steps: RetrievalSteps,
    query: Query,
    profile: Profile,
    changed: Mapping[str, LegSpec],
    deadline: Deadline,
) -> dict[str, LegResult]:
    """Returns what these legs find with changed specs; nothing for one that failed.

    Their upstream legs stay as in the profile, because other candidates of theirs would change
    the result. So a leg that others depend on runs in a round of its own.
    """
    leaned_on = {name for leg in profile.legs for name in leg.leans_on}
    off = {leg.name: replace(leg, weight=0) for leg in profile.legs if leg.name not in leaned_on}
    rounds = [changed.keys() - leaned_on, *({name} for name in changed.keys() & leaned_on)]
    found: dict[str, LegResult] = {}
    for names in filter(None, rounds):
        specs = off | {name: changed[name] for name in names}
        legs = tuple(specs.get(leg.name, leg) for leg in profile.legs)
        with contextlib.suppress(AllLegsFailedError):
            asked = replace(profile, legs=legs, rerank=None)
            results = await steps.run_legs(query, asked, deadline)
            found |= {result.report.leg: result for result in results if result.report.leg in names}
    return found


def _freed(leg: LegSpec) -> tuple[LegSpec, str]:
    """Returns the leg without restrictions, and how they may hide an item; empty if it has none."""
    words, whys = leg.words, list[str]()
    if leg.lookback is not None:
        days = leg.lookback / timedelta(days=1)
        back = f"{days:g} day{'' if days == 1 else 's'}"
        whys.append(f"the item is further back than the lookback of {back}")
    if leg.pool is not None:
        why = f"the item is not among the {leg.pool.recently_accessed} accessed last"
        if leg.pool.joined_by:
            why += f", and not found by {' or '.join(leg.pool.joined_by)}"
        whys.append(why)
    if words.mode is WordsMode.ALL_THEN_ANY:
        whys.append(
            "the item has some of the words, and enough others have all of them or "
            f"its rank is not above the gate of {words.rank_gate:g}"
        )
        words = replace(words, mode=WordsMode.ANY)
    if leg.named_times:
        whys.append("the item is not of a time that the question names")
    if leg.about_asker:
        whys.append("the item is not what a speaker told of themselves")
    freed = replace(
        leg, lookback=None, pool=None, named_times=False, about_asker=False, words=words
    )
    return freed, ", or ".join(whys)


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
    depth = before.depth
    loss, reason = Loss.BELOW_DEPTH, f"rank {rank:g} is below the depth {depth}" if rank else ""
    if _finds(before, row.item):
        loss, reason = Loss.NONE, ""
    elif not spec.weight:
        loss, reason = Loss.NOT_MATCHED, before.report.reason
    elif not before.report.state.answered:
        loss, reason = Loss.UNANSWERED, before.report.why
    elif score is None:
        loss, reason = _why_never(row, spec, after)
    elif hidden_by is not None:
        loss, reason = Loss.NOT_SEARCHED, hidden_by
    elif spec.floor is not None and score < spec.floor:
        reason = f"score {score:.4g} is below the floor {spec.floor:g}"
    return LegAbsence(
        leg=spec.name,
        state=before.report.state,
        rank=rank,
        score=score,
        depth=depth,
        reason=reason,
        loss=loss,
    )


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


def _why_never(row: Item, spec: LegSpec, after: LegResult | None) -> tuple[Loss, str]:
    """Explains why a leg does not find the item at any depth, or that this is unknown."""
    if row.sensitive and not LEGS[spec.name].finds_sensitive:
        found_by = "words only" if isinstance(row, Segment) else "no leg"
        return Loss.NOT_MATCHED, f"the item is sensitive, and so found by {found_by}"
    if after is None:
        return Loss.UNANSWERED, "no answer to a deeper search"
    if not after.report.state.answered:
        return Loss.UNANSWERED, f"no answer to a deeper search: {after.report.why}"
    seeding = " and ".join(spec.walk.seeds_from)
    start = f", from what {seeding} found" if seeding else ""
    return Loss.NOT_MATCHED, f"not among its best {MAX_DEPTH}{start}"
