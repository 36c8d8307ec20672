"""Describes somebody: what holds now, in the time zone of the tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from serving.domain.breaker import Breaker, DependencyCalls, all_breakers
from serving.domain.budget import Deadline
from serving.domain.items.records import Item
from serving.domain.questions.query import NO_FILTER, Query
from serving.pipeline.retrieval.holding import Holding
from serving.pipeline.retrieval.loading import Loading
from serving.ports.memory_store import MemoryStore


@dataclass(frozen=True, slots=True)
class Description:
    """The facts and statements that hold about somebody, in turn, of each the newest first.

    The query is in the time zone of its tenant, if it had none.
    """

    query: Query
    items: Sequence[Item]


class Describer:
    """Describes a person or a thing from what PostgreSQL has."""

    def __init__(
        self, store: MemoryStore, holding: Holding, breakers: Mapping[str, Breaker] | None = None
    ) -> None:
        self._store = store
        self._holding = holding
        self._breakers = all_breakers() if breakers is None else breakers

    async def describe(self, query: Query, deadline: Deadline) -> Description:
        """Describes whom `query.text` names; the filter of its scope selects the statements.

        Raises:
            BudgetExhaustedError: The time ran out.
            StoreUnavailableError: PostgreSQL cannot be reached, or did not answer before.
        """
        loading = Loading(self._store, DependencyCalls(self._breakers), query, deadline)
        if query.time_zone is None:
            query = replace(query, time_zone=await loading.time_zone())
        about = replace(query.scope, filter=NO_FILTER), (query.text,)
        return Description(
            query, await loading.in_time(partial(self._holding.items, [about], query.scope))
        )
