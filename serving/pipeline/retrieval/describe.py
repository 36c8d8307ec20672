"""Describes somebody: the facts that hold now, and the newest statement of each subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest

from serving.domain.breaker import Breaker
from serving.domain.budget import Deadline
from serving.domain.items.records import Fact, Item, Segment
from serving.domain.questions.query import NO_FILTER, Query, Scope
from serving.domain.questions.visibility import visible
from serving.domain.ranking.ranked_list import Candidate
from serving.domain.ranking.repeats import newest_of_repeats
from serving.domain.ranking.subjects import newest_by_subject
from serving.pipeline.retrieval.steps import Loading
from serving.ports.memory_store import MemoryStore
from serving.ports.timeline import Timeline
from serving.ports.vector_index import CandidateIndex

MAX_READ = 200
"""The newest facts, and the newest segments, that a description is made of."""


@dataclass(frozen=True, slots=True)
class Description:
    """What holds about somebody: facts and statements in turn, of each the newest first.

    The query is in the time zone of its tenant, if it had none.
    """

    query: Query
    items: tuple[Item, ...]


class Describer:
    """Describes a person or a thing from what PostgreSQL has; searches for nothing."""

    def __init__(
        self,
        store: MemoryStore,
        timeline: Timeline,
        breaker: Breaker | None = None,
        index: CandidateIndex | None = None,
    ) -> None:
        self._store = store
        self._timeline = timeline
        self._breaker = breaker or Breaker("store")
        self._index = index

    async def describe(self, query: Query, deadline: Deadline) -> Description:
        """Describes whom `query.text` names; the filter of its scope selects the statements.

        Raises:
            BudgetExhaustedError: The time ran out.
            StoreUnavailableError: PostgreSQL cannot be reached, or did not answer before.
        """
        scope, timeline = query.scope, self._timeline
        loading = Loading(self._store, self._breaker, query, deadline)
        if query.time_zone is None:
            query = replace(query, time_zone=await loading.time_zone())
        about = replace(scope, filter=NO_FILTER)
        holding = partial(timeline.holding, about, MAX_READ, entities=(query.text,))
        facts = [item for item in await _read(loading, about, holding) if isinstance(item, Fact)]
        repeated = newest_of_repeats(facts)
        facts = [fact for fact in facts if repeated.get(fact.item, fact.item) == fact.item]
        latest = await _read(loading, scope, partial(timeline.latest, scope, MAX_READ))
        said = [item for item in latest if isinstance(item, Segment)]
        closed = self._index.closed(scope, [each.item for each in said]) if self._index else {}
        statements = newest_by_subject((each for each in said if each.item not in closed), facts)
        in_turn = chain.from_iterable(zip_longest(facts, statements))
        return Description(query, tuple(item for item in in_turn if item is not None))


async def _read(
    loading: Loading, scope: Scope, find: Callable[[Deadline], Awaitable[list[Candidate]]]
) -> Sequence[Item]:
    """The rows of what a search finds, in its order, which the scope still shows."""
    items = [candidate.item for candidate in await loading.in_time(find)]
    rows = await loading.rows(items)
    return [rows[item] for item in items if item in rows and visible(rows[item], scope)]
