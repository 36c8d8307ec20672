"""`ResidentView` over the tenants in memory."""

from __future__ import annotations

from collections.abc import Sequence

from serving.adapters.resident.residents import Residents
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.period import Period
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Walk, WordsMode, WordsSearch
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.resident_view import KnownRows

DEFAULT_WALK = Walk()


class TenantsInMemory(Residents):
    """A `ResidentView`: the stores are asked for what it leaves out.

    That are hidden rows, which are in PostgreSQL alone; searches that rank all rows by `ts_rank`;
    and walks that a profile chooses.
    """

    def find_by_words(self, query: Query, words: WordsSearch, depth: int) -> list[Candidate] | None:
        if words.mode is not WordsMode.BM25:
            return None
        tenant = self.current(query.scope.tenant, query.token)
        if tenant is None or tenant.has_hidden:
            return None
        return tenant.words.search(query, words, depth)

    def walk(self, query: Query, walk: Walk, depth: int, yields: Yields) -> list[Candidate] | None:
        if walk != DEFAULT_WALK or yields is not Yields.EVIDENCE or query.seeds:
            return None
        tenant = self.current(query.scope.tenant, query.token)
        return None if tenant is None else tenant.entities.walk(query, depth)

    def latest(self, query: Query, depth: int, *, earliest_first: bool) -> list[Candidate] | None:
        tenant = self.current(query.scope.tenant, query.token)
        if tenant is None:
            return None
        return tenant.times.latest(query.scope, depth, earliest_first=earliest_first)

    def mentioning(self, period: Period, query: Query, depth: int) -> list[Candidate] | None:
        tenant = self.current(query.scope.tenant, query.token)
        return None if tenant is None else tenant.times.mentioning(period, query.scope, depth)

    def rows(
        self, tenant: TenantName, items: Sequence[ItemId], token: ConsistencyToken | None
    ) -> KnownRows | None:
        found = self.current(tenant, token)
        if found is None:
            return None
        rows = {item: row for item in items if (row := found.get(item)) is not None}
        return KnownRows(rows, complete=not found.has_hidden)

    def has_facts(self, tenant: TenantName, token: ConsistencyToken | None) -> bool | None:
        found = self.current(tenant, token)
        if found is None or (found.has_hidden and not found.has_facts):
            return None
        return found.has_facts
