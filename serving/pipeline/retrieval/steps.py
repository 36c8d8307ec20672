"""The steps of an answer: legs, folding, fusion, priors, reranking, diversification.

1. Correct misspelt and shortened names to known ones, if the profile enables that.
2. Run every leg of the profile concurrently, until the deadline less a reserve.
3. Rank the candidates by the profile's signals, and fuse all lists. Signals ask the index; rows are
   read only of candidates that it lacks.
4. Read the rows of the best candidates; rows that are gone or outside the scope are dropped. If
   candidates say the same, they are folded, and the lists are fused again.
5. Run the profile's steps (`order`): fold repeats, weigh, rerank, prefer what holds now,
   diversify, cut to the limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from functools import cache, partial
from itertools import chain

from serving.domain.breaker import POSTGRES, Breaker, DependencyCalls, all_breakers
from serving.domain.budget import ADJACENT_TURNS, NAME_CORRECTION, RANKING, Deadline
from serving.domain.errors import RequiredLegsError, TriviumError
from serving.domain.items.records import Item, ItemId, Segment, segment_id
from serving.domain.items.text import questions_of
from serving.domain.questions.named_times import NamedTimes
from serving.domain.questions.query import Query
from serving.domain.ranking.fusion import Fused, fuse
from serving.domain.ranking.profile import Profile
from serving.domain.ranking.ranked_list import RankedList, within_depth
from serving.domain.ranking.repeats import folded, newest_of_repeats, tied
from serving.domain.ranking.signals import ACCESS, TIME, Known, Named, Traits, ranked_by
from serving.pipeline.index.vector_space import VectorLookup, VectorSpace
from serving.pipeline.retrieval.admission import NOTHING, RERANK
from serving.pipeline.retrieval.leg_runner import LegReport, LegResult, LegRunner, LegState
from serving.pipeline.retrieval.legs import LEGS
from serving.pipeline.retrieval.legs.leg import Times
from serving.pipeline.retrieval.loading import Loading
from serving.pipeline.retrieval.name_correction import NameCorrection, correct_names
from serving.pipeline.retrieval.order.hit import Hit
from serving.pipeline.retrieval.order.ordering import Ordering
from serving.pipeline.retrieval.order.scoring import GIVERS, first_of
from serving.pipeline.retrieval.rerank_stage import RerankReport, rerank_head
from serving.ports.access_log import AccessLog
from serving.ports.memory_store import MemoryStore
from serving.ports.reranking import Reranker
from serving.ports.resident_view import ResidentView
from serving.ports.vector_index import Adjacency
from serving.ports.words import NameResolver

ReadTimes = Callable[[str, datetime], NamedTimes]
"""Reads the times that a question names, by its local time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The stages of the time of one retrieval, in seconds."""

    total_s: float
    embedding_s: float
    loading_s: float
    reranking_s: float
    ranking_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """The answer to a question."""

    profile: str
    time_zone: tzinfo | None
    hits: tuple[Hit, ...]
    reports: tuple[LegReport, ...]
    rerank: RerankReport | None
    timings: Timings
    candidates: int
    folded: int
    vanished: int
    index_epoch: int
    name_corrections: tuple[NameCorrection, ...] = ()
    shed: frozenset[str] = NOTHING
    """The reranker and the legs that were shed because the service was busy."""

    unknown_seeds: tuple[str, ...] = ()
    """The seeds of the query that are no segments which represent an entity."""

    @property
    def legs_alone(self) -> set[str]:
        """The legs that found a hit which no other leg found."""
        ran = {report.leg for report in self.reports}
        found_by = [{term.leg for term in hit.ledger.leg_terms} & ran for hit in self.hits]
        return {leg for legs in found_by if len(legs) == 1 for leg in legs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A retrieval with its intermediate results, to explain what happened to one item.

    `query` is the query that the legs ran, with corrected names.
    """

    retrieval: Retrieval
    query: Query
    results: Sequence[LegResult]
    ordering: Ordering


@dataclass(frozen=True, kw_only=True)
class RetrievalSteps:
    """The steps of an answer, which answers and explanations share."""

    legs: LegRunner
    space: VectorSpace
    store: MemoryStore
    access: AccessLog
    read_times: ReadTimes
    names: NameResolver | None = None
    reranker: Reranker | None = None
    breakers: Mapping[str, Breaker] = field(default_factory=all_breakers)
    view: ResidentView | None = None

    async def run(
        self,
        query: Query,
        profile: Profile,
        deadline: Deadline,
        *,
        thorough: bool = False,
        shed: frozenset[str] = NOTHING,
    ) -> Traced:
        """Answers a query, and keeps what each step did; `thorough` reads all candidates' rows.

        Raises:
            AllLegsFailedError: Every leg that ran failed.
            RequiredLegsError: A leg that the query requires is not OK.
            StoreUnavailableError: The candidates' rows cannot be read.
            BudgetExhaustedError: The time ran out between the legs and the rows.
        """
        started = time.perf_counter()
        loading = self._loading(query, profile, deadline)
        query, corrections = await self._completed(query, profile, loading)
        times = self._times_of(query)
        results, embedding_s = await self._run_legs(query, profile, times, loading, shed)
        _check_required(query, results)

        async def ordering_of(newest: Mapping[ItemId, ItemId]) -> Ordering:
            found = by_one_leg(profile, _lists(profile, results, newest), times)
            items = list(dict.fromkeys(each.item for ranked in found for each in ranked.candidates))
            index, scope = self.space.candidates, query.scope
            traits = {} if index is None else index.traits(scope.tenant, items)
            closed = {} if index is None else index.closed(scope, items)
            signals = await self._signals(query, profile, items, traits, times, loading)
            fused = fuse(
                [*found, *signals],
                weights=profile.weights,
                method=profile.fusion,
                rank_constant=profile.rank_constant,
                rank_style=profile.rank_style,
                least_scores=profile.least_scores,
            )
            return Ordering(
                profile,
                query,
                fused,
                repeats=[loading.known[item] for item in newest],
                traits=traits,
                closed=closed,
                adjacent=await self._adjacent(query, profile, fused, loading),
                thorough=thorough,
            )

        ordering = await ordering_of({})
        if suspects := _suspects(profile, results):
            # In one read with what is shown if none of them is a repeat.
            rows = await loading.rows([*suspects, *ordering.next_to_load()])
            if newest := newest_of_repeats(rows[item] for item in suspects if item in rows):
                ordering = await ordering_of(newest)
        while batch := ordering.next_to_load():
            ordering.add_rows(batch, await loading.rows(batch))
        rerank = await rerank_head(
            self.reranker, query.text, ordering, loading.calls, deadline, shed=RERANK in shed
        )
        unknown_seeds = await _unknown_seeds(query, loading)

        hits = ordering.hits()
        total_s = time.perf_counter() - started
        legs_s = max((result.report.elapsed_s for result in results), default=0.0)
        reranking_s = rerank.elapsed_s if rerank is not None else 0.0
        retrieval = Retrieval(
            profile=profile.name,
            time_zone=query.time_zone,
            hits=hits,
            reports=tuple(result.report for result in results),
            rerank=rerank,
            timings=Timings(
                total_s=total_s,
                embedding_s=embedding_s,
                loading_s=loading.elapsed_s,
                reranking_s=reranking_s,
                ranking_s=max(0.0, total_s - legs_s - loading.elapsed_s - reranking_s),
            ),
            candidates=len(ordering.fused),
            folded=len(ordering.folded_into),
            vanished=len(ordering.vanished),
            index_epoch=max((result.index_epoch or 0 for result in results), default=0),
            name_corrections=corrections,
            shed=shed,
            unknown_seeds=unknown_seeds,
        )
        return Traced(retrieval=retrieval, query=query, results=results, ordering=ordering)

    async def run_legs(
        self, query: Query, profile: Profile, deadline: Deadline, shed: frozenset[str] = NOTHING
    ) -> list[LegResult]:
        """Runs the legs alone, until it would be time to rank; as `LegRunner.run` does."""
        times, loading = self._times_of(query), self._loading(query, profile, deadline)
        results, _ = await self._run_legs(query, profile, times, loading, shed)
        return results

    async def rerank(
        self, query: Query, ordering: Ordering, deadline: Deadline
    ) -> RerankReport | None:
        """Reranks the head of an ordering; None if its profile does not rerank."""
        calls = DependencyCalls(self.breakers)
        return await rerank_head(self.reranker, query.text, ordering, calls, deadline)

    def _loading(self, query: Query, profile: Profile, deadline: Deadline) -> Loading:
        view = self.view if profile.in_memory else None
        return Loading(self.store, DependencyCalls(self.breakers), query, deadline, view)

    async def _completed(
        self, query: Query, profile: Profile, loading: Loading
    ) -> tuple[Query, tuple[NameCorrection, ...]]:
        """The query in its tenant's time zone, if it has none, and with known names.

        Raises:
            StoreUnavailableError: The zone cannot be read.
            BudgetExhaustedError: The time ran out.
        """
        if query.time_zone is None:
            query = replace(query, time_zone=await loading.time_zone())
        if self.names is None or not (profile.resolve_names and loading.calls.asks(POSTGRES)):
            return query, ()
        return await correct_names(query, self.names, NAME_CORRECTION.only(loading.deadline))

    def _times_of(self, query: Query) -> Times:
        """Reads the times of a question when first asked for, once."""
        return cache(partial(self.read_times, query.text, query.local_time))

    async def _run_legs(
        self,
        query: Query,
        profile: Profile,
        times: Times,
        loading: Loading,
        shed: frozenset[str],
    ) -> tuple[list[LegResult], float]:
        """Returns the legs' results, and how long they waited for embeddings, in seconds."""
        parts = questions_of(query.text) if profile.split_questions else ()
        lookup = VectorLookup(query, self.space, parts)
        until = RANKING.before(loading.deadline)
        results = await self.legs.run(query, profile, lookup, times, loading, until, shed)
        return results, lookup.embedding_s

    async def _adjacent(
        self, query: Query, profile: Profile, fused: Sequence[Fused], loading: Loading
    ) -> Mapping[ItemId, Adjacency]:
        """The turns next to the first candidates, if the profile lifts those.

        Without them the order stands: an index in shards does not know them, and a write that this
        question has not found needs no waiting for.
        """
        index = self.space.whole_index
        if not profile.adjacent or index is None:
            return {}
        first = [each.item for each in first_of(fused, GIVERS)]
        ask = partial(index.adjacent, replace(query, token=None), first)
        try:
            within = ADJACENT_TURNS.only(loading.deadline)
            return (await loading.calls.ask("index", within, ask)).of
        except (TriviumError, TimeoutError):
            return {}

    async def _signals(
        self,
        query: Query,
        profile: Profile,
        items: Sequence[ItemId],
        traits: Mapping[ItemId, Traits],
        times: Times,
        loading: Loading,
    ) -> list[RankedList]:
        """Returns a list per signal, of the candidates that still exist.

        Rows are read of those whose traits are not given.
        """
        named = Named.of(query.text)
        names = [signal.name for signal in profile.signals if signal.weight]
        if TIME in names:
            named = Named(named.words, times().periods)
            if not named.periods:
                names.remove(TIME)  # it ranks nothing
        if not names:
            return []
        counted = items if ACCESS in names else []
        # What an index in this process knows needs no rows.
        unknown = [item for item in items if item not in traits]
        rows: Mapping[ItemId, Item] = {}
        shown: Mapping[ItemId, int] = {}
        if unknown or counted:
            rows, shown = await asyncio.gather(
                loading.rows(unknown), loading.shown(self.access, counted)
            )
        read = {item: Traits.of(rows[item]) for item in unknown if item in rows}
        known = [
            Known(each, named, shown.get(item, 0))
            for item in items
            if (each := traits.get(item) or read.get(item)) is not None
        ]
        return [ranked_by(name, known) for name in names]


def by_one_leg(profile: Profile, found: Sequence[RankedList], times: Times) -> Sequence[RankedList]:
    """The list of the leg for what a question asks, if it asks for nothing else; else all lists.

    "What happened yesterday?" has no words and no meaning that a turn of that day would share, and
    "What do you know about me?" has those of what a bot says about remembering.
    """
    of_asker = {spec.name for spec in profile.legs if spec.about_asker}
    timed = {spec.name for spec in profile.legs if spec.named_times}
    for ranked in found:
        if ranked.candidates and (
            ranked.leg in of_asker or (ranked.leg in timed and times().alone)
        ):
            return [ranked]
    return found


def _suspects(profile: Profile, results: Sequence[LegResult]) -> list[ItemId]:
    """The candidates whose texts may be equal, if the profile folds those.

    Ranks are given after folding, so that copies cost neither themselves nor others a rank. Only
    rows whose texts may be equal are read.
    """
    if not profile.fold_repeats:
        return []
    of_texts = [result for result in results if LEGS[result.report.leg].ranks_by_text]
    of_legs = [tied(result.read, result.depth) for result in of_texts]
    return list(dict.fromkeys(chain.from_iterable(of_legs)))


def _lists(
    profile: Profile, results: Sequence[LegResult], newest: Mapping[ItemId, ItemId]
) -> list[RankedList]:
    """The lists to fuse, without repeats; others take the places of these within the depth."""
    lists = []
    for result in results:
        ranked = result.ranked
        if ranked is not None and newest:
            once = within_depth(folded(result.read, newest), result.depth, profile.rank_style)
            ranked = RankedList(ranked.leg, tuple(once))
        if ranked is not None:
            lists.append(ranked)
    return lists


def _check_required(query: Query, results: Sequence[LegResult]) -> None:
    """Raises `RequiredLegsError` if a leg that the query requires is not OK."""
    missing = {
        report.leg: report.reason or report.state.value.replace("_", " ")
        for report in (result.report for result in results)
        if report.leg in query.required and report.state is not LegState.OK
    }
    if missing:
        raise RequiredLegsError(missing)


async def _unknown_seeds(query: Query, loading: Loading) -> tuple[str, ...]:
    if not query.seeds:
        return ()
    rows = await loading.rows([segment_id(id_) for id_ in query.seeds])
    known = {row.id for row in rows.values() if isinstance(row, Segment) and row.entity}
    return tuple(id_ for id_ in query.seeds if id_ not in known)
