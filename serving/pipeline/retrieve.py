"""Answering a question: all legs at once, then fusion, priors, folding, reranking, diversity.

1. Read misheard names, and short ones, as known ones, where the profile asks for that.
2. Ask every leg of the profile, each until the deadline less a reserve.
3. Rank what they found by the profile's signals, and fuse.
4. Read the candidates' rows; what has gone meanwhile, or fails the scope, drops out.
5. Weigh by importance and age, fold near-duplicates, rerank, diversify, cut to the limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from serving.domain.budget import Deadline
from serving.domain.errors import BudgetExhaustedError
from serving.domain.fusion import Fused, fuse
from serving.domain.profile import Profile
from serving.domain.query import Query
from serving.domain.ranking import RankedList
from serving.domain.records import Item, ItemId
from serving.domain.signals import ACCESS, TIME, Known, Named, ranked_by
from serving.domain.text import questions_of
from serving.pipeline.asking import LegReport, LegResult, Legs
from serving.pipeline.hearing import HeardName, read_names
from serving.pipeline.legs import QueryVector
from serving.pipeline.ordering import Hit, Ordering, Stage
from serving.pipeline.rerank import RerankReport, RerankStage
from serving.pipeline.spaces import VectorSpaces
from serving.ports import AccessLog, DateReader, MemoryStore, NameResolver, Reranker

LEAST_RESERVE_S = 0.010
MOST_RESERVE_S = 0.100
"""Kept back from the legs for reading rows and ranking: a tenth of the budget between these.
They take 2-4 ms on an idle machine; on a busy one an answer without rows would be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Where the time of one retrieval went, in seconds."""

    total_s: float
    embedding_s: float
    loading_s: float
    reranking_s: float
    ranking_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """The answer to a question."""

    profile: str
    hits: tuple[Hit, ...]
    reports: tuple[LegReport, ...]
    rerank: RerankReport | None
    timings: Timings
    candidates: int
    folded: int
    vanished: int
    index_epoch: int
    heard: tuple[HeardName, ...] = ()

    @property
    def legs_alone(self) -> set[str]:
        """The legs that brought a hit which no other leg found."""
        asked = {report.leg for report in self.reports}
        found_by = [{term.leg for term in hit.ledger.leg_terms} & asked for hit in self.hits]
        return {leg for legs in found_by if len(legs) == 1 for leg in legs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A retrieval with all that led to it, for those who ask what became of one item.

    `query` is the question as the legs were asked it.
    """

    retrieval: Retrieval
    query: Query
    results: Sequence[LegResult]
    fused: Sequence[Fused]
    ordering: Ordering


class Retriever:
    """Answers questions from legs, a store and a profile."""

    def __init__(
        self,
        *,
        legs: Legs,
        spaces: VectorSpaces,
        store: MemoryStore,
        access: AccessLog,
        dates: DateReader,
        names: NameResolver | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self._legs = legs
        self._spaces = spaces
        self._store = store
        self._access = access
        self._dates = dates
        self._names = names
        self._rerank = RerankStage(reranker)

    async def retrieve(self, query: Query, profile: Profile, deadline: Deadline) -> Retrieval:
        """Answers within the deadline with what the legs found by then.

        Raises:
            AllLegsFailedError: Every leg that was asked failed.
            StoreUnavailableError: The candidates' rows cannot be read.
            BudgetExhaustedError: The time ran out between the legs and the rows.
        """
        retrieval = (await self._retrieve(query, profile, deadline, thorough=False)).retrieval
        self._access.record(query.scope.tenant, [hit.item.item for hit in retrieval.hits])
        return retrieval

    async def trace(self, query: Query, profile: Profile, deadline: Deadline) -> Traced:
        """Does the same and keeps every step, with all rows read; counts as no access.

        Raises:
            AllLegsFailedError: Every leg that was asked failed.
            StoreUnavailableError: The candidates' rows cannot be read.
            BudgetExhaustedError: The time ran out between the legs and the rows.
        """
        return await self._retrieve(query, profile, deadline, thorough=True)

    async def reorder(
        self, traced: Traced, profile: Profile, deadline: Deadline
    ) -> tuple[Hit, ...]:
        """The answer that a traced retrieval would give with other steps after the fusion.

        Nothing is asked or read again; only what the reranker has not read yet, it reads.
        """
        ordering = traced.ordering.under(profile)
        report = traced.retrieval.rerank
        if profile.rerank is None or report is None:
            return ordering.hits()
        if report.stage is not Stage.RERANKED:
            ordering.leave_coarse(report.stage)
        elif (logits := traced.ordering.known_logits(ordering.head())) is not None:
            ordering.take_logits(logits)
        else:
            await self._rerank.rerank(traced.query.text, ordering, deadline)
        return ordering.hits()

    async def ask_legs(self, query: Query, profile: Profile, deadline: Deadline) -> list[LegResult]:
        """Only asks the legs, each until the deadline less a reserve; in the profile's order.

        Raises:
            AllLegsFailedError: Every leg that was asked failed.
            StoreUnavailableError: A leg could not reach PostgreSQL.
        """
        query, _ = await self._heard(query, profile, deadline)
        results, _ = await self._ask(query, profile, deadline)
        return results

    async def _heard(
        self, query: Query, profile: Profile, deadline: Deadline
    ) -> tuple[Query, tuple[HeardName, ...]]:
        """The question as the legs are asked it, and what of it was read otherwise."""
        if self._names is None or not profile.resolve_names:
            return query, ()
        patience = Deadline.after(_reserve(deadline.remaining()))
        return await read_names(query, self._names, patience)

    async def _ask(
        self, query: Query, profile: Profile, deadline: Deadline
    ) -> tuple[list[LegResult], float]:
        """What the legs found, and the seconds that embedding the question took."""
        for_legs = deadline.earlier_by(_reserve(deadline.remaining()))
        parts = questions_of(query.text) if profile.split_questions else ()
        vector = QueryVector(query, self._spaces.for_query(query), for_legs, parts)
        try:
            results = await self._legs.ask(query, profile, vector, for_legs)
        finally:
            await vector.discard()
        return results, vector.elapsed_s

    async def _retrieve(
        self, query: Query, profile: Profile, deadline: Deadline, *, thorough: bool
    ) -> Traced:
        started = time.perf_counter()
        query, heard = await self._heard(query, profile, deadline)
        results, embedding_s = await self._ask(query, profile, deadline)
        found = [result.ranked for result in results if result.ranked is not None]

        loading = _Loading(self._store, query, deadline)
        signals = await self._signals(query, profile, found, loading)
        fused = _fuse(profile, [*found, *signals])
        ordering = Ordering(profile, query.scope, fused, thorough=thorough)
        while batch := ordering.next_to_load():
            ordering.take(batch, await loading.rows(batch))
        rerank = await self._rerank.rerank(query.text, ordering, deadline)

        hits = ordering.hits()
        total_s = time.perf_counter() - started
        legs_s = max((result.report.elapsed_s for result in results), default=0.0)
        reranking_s = rerank.elapsed_s if rerank is not None else 0.0
        retrieval = Retrieval(
            profile=profile.name,
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
            candidates=len(fused),
            folded=len(ordering.folded_into),
            vanished=len(ordering.vanished),
            index_epoch=max((result.index_epoch or 0 for result in results), default=0),
            heard=heard,
        )
        return Traced(
            retrieval=retrieval, query=query, results=results, fused=fused, ordering=ordering
        )

    async def _signals(
        self, query: Query, profile: Profile, found: Sequence[RankedList], loading: _Loading
    ) -> list[RankedList]:
        """A list per signal, of what the legs found and is still there."""
        names = [signal.name for signal in profile.signals if signal.weight]
        if not names:
            return []
        items = list(dict.fromkeys(each.item for ranked in found for each in ranked.candidates))
        counted = items if ACCESS in names else []
        rows, shown = await asyncio.gather(
            loading.rows(items), loading.shown(self._access, counted)
        )
        periods = self._dates.periods(query.text, query.scope.as_of) if TIME in names else ()
        named = Named.of(query.text, periods)
        known = [Known(rows[item], named, shown.get(item, 0)) for item in items if item in rows]
        return [ranked_by(name, known) for name in names]


class _Loading:
    """Reading what is stored of the candidates, each row once, and how long it took."""

    def __init__(self, store: MemoryStore, query: Query, deadline: Deadline) -> None:
        self._store = store
        self._tenant = query.scope.tenant
        self._deadline = deadline
        self._rows: dict[ItemId, Item] = {}
        self._read: set[ItemId] = set()
        self.elapsed_s = 0.0

    async def rows(self, items: Sequence[ItemId]) -> Mapping[ItemId, Item]:
        """The rows that exist.

        Raises:
            BudgetExhaustedError: The time ran out.
        """
        unread = [item for item in items if item not in self._read]
        if unread:
            started = time.perf_counter()
            async with self._in_time():
                self._rows |= await self._store.load(self._tenant, unread, self._deadline)
            self._read.update(unread)
            self.elapsed_s += time.perf_counter() - started
        return self._rows

    async def shown(self, access: AccessLog, items: Sequence[ItemId]) -> Mapping[ItemId, int]:
        """How often each was shown.

        Raises:
            BudgetExhaustedError: The time ran out.
        """
        if not items:
            return {}
        async with self._in_time():
            return await access.shown_counts(self._tenant, items, self._deadline)

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._deadline.remaining()):
                yield
        except TimeoutError as error:
            raise BudgetExhaustedError("reading the candidates") from error


def _fuse(profile: Profile, lists: Sequence[RankedList]) -> list[Fused]:
    return fuse(
        lists,
        weights=profile.weights,
        method=profile.fusion,
        rank_constant=profile.rank_constant,
        rank_style=profile.rank_style,
        least_scores=profile.least_scores,
    )


def _reserve(budget_s: float) -> float:
    tenth = min(max(budget_s / 10, LEAST_RESERVE_S), MOST_RESERVE_S)
    return min(tenth, budget_s / 4)
