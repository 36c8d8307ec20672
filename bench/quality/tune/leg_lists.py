"""Queries the service for the deep list of each leg, from which any profile can be ranked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from rich.progress import Progress

from bench.harness.collection import Collection, Query
from bench.harness.connections import Connections
from bench.quality.scoring.evaluate import TIMEOUT_S
from bench.quality.tune.coordinates import deepest
from serving.config.profiles.book import merged
from serving.domain.items.records import (
    DEFAULT_IMPORTANCE,
    Item,
    ItemId,
    ItemKind,
    Segment,
    TenantName,
    segment_id,
)
from serving.domain.questions.query import Scope
from serving.domain.ranking.profile import MAX_LIMIT, LegSpec, Profile, Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.pipeline.retrieval.legs import FactsLeg
from serving.pipeline.retrieval.legs.leg import NOTHING_TO_LOOK_UP
from serving.pipeline.retrieval.name_correction import reading
from trivium import values
from trivium.aio import AsyncClient
from trivium.errors import TriviumError
from trivium.values import Hit, LegReport, LegState, Retrieval

PAGE = 1000
"""Rows that are read at a time."""

ATTEMPTS = 3
"""A run of thousands of questions is not lost to one that a busy machine left unanswered."""

FAINT = 1e-6
"""The weight of legs that are needed only as the start of another: it reorders nothing."""

Rows = Mapping[ItemId, Item]

Ask = Callable[[Query, Mapping[str, Any], int], Awaitable[Retrieval]]
"""Sends a question with changes to the profile, for at most that many hits, with ledgers."""


class IncompleteError(ValueError):
    """A leg did not answer, so its list is unknown; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegLists:
    """The results of all legs for one question, and its answer under the start profile.

    Args:
        set: The collection.
        query: The question, with the names that the service corrected.
        as_of: Its clock.
        rows: The segments of its tenant.
        deep: The candidates of each leg, best first; of the leg `facts` facts.
        evidence: The segments that each fact among them rests on.
        answer: The answer of the service.
    """

    set: str
    query: Query
    as_of: datetime
    rows: Rows
    deep: Mapping[str, Sequence[Candidate]]
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    answer: Sequence[ItemId] = ()

    @property
    def scope(self) -> Scope:
        """What may be shown."""
        return Scope(tenant=TenantName(self.query.tenant), as_of=self.as_of)


async def query_set(
    connections: Connections, collection: Collection, profile: Profile, bars: Progress
) -> list[LegLists]:
    """Queries the lists of all judged questions of a stored set.

    Raises:
        IncompleteError: A leg did not answer.
        TriviumError: The service did not.
    """

    async def ask(query: Query, changes: Mapping[str, Any], limit: int) -> Retrieval:
        return await connections.ask(
            query,
            timeout=TIMEOUT_S,
            profile=profile.name,
            profile_overrides=changes,
            limit=limit,
            explain=True,
        )

    tenants = {query.tenant for query in collection.judged}
    rows = {tenant: await _rows(connections.client(tenant)) for tenant in tenants}
    queries = bars.track(collection.judged, description=f"querying {collection.name}")
    return [
        await query_legs(ask, profile, collection.name, query, rows[query.tenant])
        for query in queries
    ]


async def query_legs(ask: Ask, profile: Profile, set_: str, query: Query, rows: Rows) -> LegLists:
    """Queries the lists of one question.

    Args:
        ask: Sends a question.
        profile: The one that the search starts with.
        set_: The collection's name.
        query: The question.
        rows: The segments of its tenant.

    Raises:
        IncompleteError: A leg did not answer.
        TriviumError: The service did not.
    """
    # One clock for all requests, or the answers would be of several times.
    as_of = query.as_of or datetime.now(UTC)
    query = replace(query, as_of=as_of)
    hits = {
        leg.name: (await _complete(ask, query, _alone(profile, leg), MAX_LIMIT, [leg])).hits
        for leg in profile.legs
    }
    active = [leg for leg in profile.legs if leg.weight]
    answer = await _complete(ask, query, {}, profile.limit, active)
    meant = {each.given: each.used for each in answer.coercions if each.field == "query"}
    return LegLists(
        set=set_,
        query=replace(query, text=reading(query.text, meant)),
        as_of=as_of,
        rows=rows,
        deep={leg: _candidates(of_leg, leg) for leg, of_leg in hits.items()},
        evidence=_evidence(hits.get(FactsLeg.name, ())),
        answer=[segment_id(hit.id) for hit in answer.hits],
    )


async def _complete(
    ask: Ask, query: Query, changes: Mapping[str, Any], limit: int, legs: Sequence[LegSpec]
) -> Retrieval:
    """An answer to which these legs have contributed, after at most `ATTEMPTS`."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            retrieval = await ask(query, changes, limit)
            if missing := list(_missing(retrieval, legs)):
                raise IncompleteError(f"question {query.id!r}: {', '.join(missing)}")
            return retrieval
        except (IncompleteError, TriviumError):
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises; this is a bug")


def _missing(retrieval: Retrieval, legs: Sequence[LegSpec]) -> Iterator[str]:
    reports = {report.leg: report for report in retrieval.leg_reports}
    for leg in legs:
        report = reports.get(leg.name)
        if report is None:
            yield f"{leg.name} was not queried"
        elif not _is_complete(report, leg):
            yield f"{leg.name} {report.state.value} ({report.reason})".removesuffix(" ()")


def _is_complete(report: LegReport, leg: LegSpec) -> bool:
    if report.state is LegState.SKIPPED:
        # An expanding leg is skipped where the others find nothing to start from.
        return leg.expansion is not None or report.reason == NOTHING_TO_LOOK_UP
    return report.state is LegState.OK


def _alone(profile: Profile, leg: LegSpec) -> Mapping[str, Any]:
    """Changes that query a leg alone, deep and without a floor, in its own order."""
    upstream = leg.expansion.found_by if leg.expansion is not None else ()
    legs: dict[str, dict[str, Any]] = {
        each.name: {"weight": FAINT if each.name in upstream else 0.0, "reserved": 0}
        for each in profile.legs
    }
    legs[leg.name] |= {"weight": 1.0, "depth": deepest(leg.name), "depth_per_limit": 0}
    if leg.floor is not None:
        legs[leg.name]["floor"] = None
    if leg.name == FactsLeg.name:
        legs[leg.name]["yields"] = Yields.FACTS.value
    plain = {
        "fusion": "reciprocal_rank",
        "fold_repeats": False,
        "importance": {"style": "off"},
        "decay": None,
        "diversity": None,
        "sort": "relevance",
        "signals": dict.fromkeys((signal.name for signal in profile.signals), None),
    }
    return merged(plain, {"legs": legs})


# ---------------------------------------------------------------- reading answers


def _candidates(hits: Sequence[Hit], leg: str) -> list[Candidate]:
    """The results of a leg, in its order."""
    ranked: list[tuple[float, Candidate]] = []
    for hit in hits:
        assert hit.ledger is not None, "ledgers are requested; this is a bug"
        kind = ItemKind.FACT if isinstance(hit.item, values.Fact) else ItemKind.SEGMENT
        item = ItemId(kind, hit.id)
        ranked += (
            (term.rank, Candidate(item, term.leg_score))
            for term in hit.ledger.leg_terms
            if term.leg == leg
        )
    return [each for _, each in sorted(ranked, key=lambda each: (each[0], each[1].item))]


def _evidence(hits: Sequence[Hit]) -> dict[str, tuple[str, ...]]:
    facts = (hit.item for hit in hits)
    return {fact.id: tuple(fact.evidence) for fact in facts if isinstance(fact, values.Fact)}


async def _rows(client: AsyncClient) -> Rows:
    """All segments of a tenant, as the pipeline reads them."""
    rows = [_segment(each) async for each in client.list_segments(page_size=PAGE)]
    return {row.item: row for row in rows}


def _segment(segment: values.Segment) -> Segment:
    assert segment.event_time is not None, "a stored segment has a time; this is a bug"
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
