"""Queries the service for the deep list of each leg, and for its answers under the start profile.

An expanding leg starts from the best results of other legs. These depend on the profile, so it is
queried once for each start that a candidate profile leads to.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bench.harness.collection import Query
from bench.quality.tune.coordinates import Coordinate, Definition, changed, deepest
from bench.quality.tune.lists import Found, Lists, Rows, Seeds
from serving.config.profiles.book import merged
from serving.config.profiles.form import to_form
from serving.domain.items.records import (
    DEFAULT_IMPORTANCE,
    Fact,
    Item,
    ItemId,
    ItemKind,
    Segment,
)
from serving.domain.items.validity import Closing
from serving.domain.ranking.profile import MAX_LIMIT, LegSpec, Profile, Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.legs import FACTS, OPTIONS_OF_LEGS
from serving.pipeline.retrieval.name_correction import reading
from trivium import values
from trivium.errors import TriviumError
from trivium.values import Hit, LegState, Retrieval

ATTEMPTS = 3
"""A run of thousands of questions is not lost to one that a busy machine left unanswered."""

QUERY = "query"
"""The field of a coercion that says how a word of the question was read."""

FAINT = 1e-6
"""The weight of legs that must be asked without effect: too little to reorder another's list."""

Ask = Callable[[Query, Mapping[str, Any], int], Awaitable[Retrieval]]
"""Asks a question with changes to the profile, for at most so many hits, with ledgers."""


class NotWholeError(Exception):
    """A leg did not answer, so its list is unknown; the message says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: what its legs find, and what the service answers under the start's profile."""

    found: Found
    answer: Sequence[ItemId]


class Asker:
    """Asks what a search over a profile needs to know.

    Args:
        ask: Asks the service.
        definition: The profile that the search starts with.
        profile: The same as the pipeline takes it.
        tried: What the search may change.
    """

    def __init__(
        self, ask: Ask, definition: Definition, profile: Profile, tried: Iterable[Coordinate]
    ) -> None:
        self._ask = ask
        self._profile = profile
        self._alone = {
            leg.name: _alone(profile, leg) for leg in profile.legs if leg.expansion is None
        }
        self._contexts = {
            leg.name: _contexts(definition, profile, leg, tried)
            for leg in profile.legs
            if leg.expansion is not None
        }

    async def asked(self, set_: str, query: Query, rows: Rows) -> Asked:
        """Asks everything about one question.

        Args:
            set_: The collection's name.
            query: The question.
            rows: Everything that its tenant stores.

        Raises:
            NotWholeError: A leg did not answer.
            TriviumError: The service did not.
        """
        # One clock for all that is asked, or the answers would not be of one time.
        query = replace(query, as_of=query.as_of or datetime.now(UTC))
        assert query.as_of is not None, "set above; this is a bug"
        hits = {leg: await self._hits(query, changes, leg) for leg, changes in self._alone.items()}
        found = Found(
            set=set_,
            query=query,
            as_of=query.as_of,
            rows=rows,
            deep={leg: _candidates(of_leg, leg) for leg, of_leg in hits.items()},
            evidence=_evidence(hits.get(FACTS, ())),
        )
        led_on = {
            leg: await self._led_on(found, leg, contexts)
            for leg, contexts in self._contexts.items()
        }
        answer = await self._whole(query, {}, self._profile.limit, self._legs)
        read = replace(query, text=_as_read(query.text, answer))
        found = replace(found, query=read, led_on=led_on)
        return Asked(found, [_item(hit) for hit in answer.hits])

    @property
    def _legs(self) -> list[str]:
        return [leg.name for leg in self._profile.legs if leg.weight]

    async def _led_on(
        self, found: Found, leg: str, contexts: Sequence[_Context]
    ) -> Mapping[Seeds, Sequence[Candidate]]:
        lists = Lists(found)
        beginnings = {
            lists.seeds(each.profile.leg(leg), lists.of(each.leaned_on(leg))): each
            for each in contexts
        }
        return {
            seeds: _candidates(await self._hits(found.query, context.changes, leg), leg)
            for seeds, context in beginnings.items()
            if seeds
        }

    async def _hits(self, query: Query, changes: Mapping[str, Any], leg: str) -> Sequence[Hit]:
        return (await self._whole(query, changes, MAX_LIMIT, [leg])).hits

    def _answered(self, leg: str) -> Set[LegState]:
        """The states in which the list of a leg is complete."""
        leads_on = self._profile.leg(leg).expansion is not None
        # One that leads on is skipped where the others find nothing to begin with.
        return {LegState.OK, LegState.SKIPPED} if leads_on else {LegState.OK}

    def _missing(self, retrieval: Retrieval, legs: Sequence[str]) -> Iterator[str]:
        reports = {report.leg: report for report in retrieval.leg_reports}
        for leg in legs:
            report = reports.get(leg)
            if report is None:
                yield f"{leg} was not asked"
            elif report.state not in self._answered(leg):
                yield f"{leg} {report.state.value} ({report.reason})".removesuffix(" ()")

    async def _whole(
        self, query: Query, changes: Mapping[str, Any], limit: int, legs: Sequence[str]
    ) -> Retrieval:
        """An answer to which these legs have contributed."""
        for attempt in itertools.count(1):
            try:
                retrieval = await self._ask(query, changes, limit)
                if not (missing := list(self._missing(retrieval, legs))):
                    return retrieval
                raise NotWholeError(f"question {query.id!r}: {', '.join(missing)}")
            except (NotWholeError, TriviumError):
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("attempts end; this is a bug")


def _as_read(text: str, answer: Retrieval) -> str:
    """The question with the names that the service corrected."""
    meant = {each.given: each.used for each in answer.coercions if each.field == QUERY}
    return reading(text, meant)


# ---------------------------------------------------------------- how legs are asked


@dataclass(frozen=True, slots=True)
class _Context:
    """A setting of the legs that another leads on from: as a profile, and as changes that ask."""

    profile: Profile
    changes: Mapping[str, Any]

    def leaned_on(self, leg: str) -> Profile:
        """The profile with no more legs than one leans on."""
        legs = self.profile.leg(leg).leans_on
        return replace(
            self.profile, legs=tuple(each for each in self.profile.legs if each.name in legs)
        )


def _plain(profile: Profile) -> dict[str, Any]:
    """Changes that leave a leg's own order: no signal, no prior, no folding, no leg at all."""
    return {
        "fusion": "reciprocal_rank",
        "rank_style": "ordinal",
        "fold_from": None,
        "importance": {"style": "off"},
        "decay": None,
        "diversity": None,
        "sort": "relevance",
        "signals": dict.fromkeys((signal.name for signal in profile.signals), None),
        "legs": {leg.name: {"weight": 0.0, "reserved": 0} for leg in profile.legs},
    }


def _alone(profile: Profile, leg: LegSpec) -> dict[str, Any]:
    """Changes that ask a leg alone, deep and without a floor; facts as facts."""
    of_leg = _deep(leg)
    if leg.name == FACTS:
        of_leg["yields"] = Yields.FACTS.value
    return merged(_plain(profile), {"legs": {leg.name: of_leg}})


def _deep(leg: LegSpec) -> dict[str, Any]:
    of_leg: dict[str, Any] = {"weight": 1.0, "depth": deepest(leg.name), "depth_per_limit": 0}
    if "floor" in OPTIONS_OF_LEGS[leg.name]:
        of_leg["floor"] = None
    return of_leg


def _contexts(
    definition: Definition, profile: Profile, leg: LegSpec, tried: Iterable[Coordinate]
) -> list[_Context]:
    """Every setting that the search may give to the legs that one leads on from.

    Of these only floors and depths matter. A depth is beyond what the leg looks at, but by mean
    rank many equal scores around it are left out together.
    """
    assert leg.expansion is not None, "asked of legs that lead on; this is a bug"
    legs = leg.expansion.found_by
    paths = {f"legs.{name}.{field}" for name in legs for field in ("floor", "depth")}
    limits = [each for each in tried if each.path in paths]
    contexts = []
    for chosen in itertools.product(*(each.values for each in limits)):
        of_context = definition
        for coordinate, value in zip(limits, chosen, strict=True):
            of_context = changed(of_context, coordinate.path, value)
        active = {name: {"weight": 1.0} for name in (*legs, leg.name)}
        set_ = to_form(merged(of_context, {"legs": active})).to_profile(profile.name)
        contexts.append(_Context(set_, _leading_on(profile, leg, set_)))
    return contexts


def _leading_on(profile: Profile, leg: LegSpec, set_: Profile) -> dict[str, Any]:
    """Changes that ask a leg that leads on, after legs that are asked as they are set."""
    assert leg.expansion is not None, "asked of legs that lead on; this is a bug"
    asked: dict[str, dict[str, float | None]] = {}
    for name in leg.expansion.found_by:
        asked[name] = {"weight": FAINT, "depth": set_.leg(name).depth}
        if "floor" in OPTIONS_OF_LEGS[name]:
            asked[name]["floor"] = set_.leg(name).floor
    # Ranked as by the profile, which says where a list that it begins with is cut.
    style = {"rank_style": set_.rank_style.value}
    return merged(_plain(profile), {**style, "legs": {**asked, leg.name: _deep(leg)}})


# ---------------------------------------------------------------- what they answer


def _item(hit: Hit) -> ItemId:
    kind = ItemKind.FACT if isinstance(hit.item, values.Fact) else ItemKind.SEGMENT
    return ItemId(kind, hit.id)


def _candidates(hits: Sequence[Hit], leg: str) -> list[Candidate]:
    """What a leg found, in its order."""
    placed: list[tuple[float, Candidate]] = []
    for hit in hits:
        assert hit.ledger is not None, "ledgers are asked for; this is a bug"
        placed += (
            (term.rank, Candidate(_item(hit), term.leg_score))
            for term in hit.ledger.leg_terms
            if term.leg == leg
        )
    return [each for _, each in sorted(placed, key=lambda each: (each[0], each[1].item))]


def _evidence(hits: Sequence[Hit]) -> dict[str, tuple[str, ...]]:
    facts = (hit.item for hit in hits)
    return {fact.id: tuple(fact.evidence) for fact in facts if isinstance(fact, values.Fact)}


def to_row(item: values.Item) -> Item:
    """A stored item, as the pipeline reads it."""
    return _segment(item) if isinstance(item, values.Segment) else _fact(item)


def _segment(segment: values.Segment) -> Segment:
    assert segment.event_time is not None, "what is stored has a time; this is a bug"
    return Segment(
        id=segment.id,
        text=segment.text,
        event_time=segment.event_time,
        title=segment.title,
        kind=segment.kind,
        speaker=segment.speaker,
        session=segment.session,
        importance=DEFAULT_IMPORTANCE if segment.importance is None else segment.importance,
        sensitive=segment.sensitive,
    )


def _fact(fact: values.Fact) -> Fact:
    assert fact.recorded_at is not None, "what is stored has a time; this is a bug"
    return Fact(
        id=fact.id,
        subject=fact.subject,
        relation=fact.relation,
        object=fact.object,
        recorded_at=fact.recorded_at,
        sentence=fact.sentence,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        retracted_at=fact.retracted_at,
        evidence=tuple(fact.evidence),
        sensitive=fact.sensitive,
        closings=tuple(
            Closing(each.fact_id, each.at, each.recorded_at, each.retracted_at)
            for each in fact.closings
        ),
    )
