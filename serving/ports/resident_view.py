"""The tenants that this process holds in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken
from serving.domain.items.period import Period
from serving.domain.items.records import Item, ItemId, TenantName
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import Walk, WordsSearch
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate


class KnownRows(NamedTuple):
    """Rows in memory. If they are `complete`, no other of the items exists."""

    rows: Mapping[ItemId, Item]
    complete: bool


class ResidentView(Protocol):
    """Answers from memory what PostgreSQL and Neo4j would answer.

    An answer is None where these are to be asked: the tenant is not in memory, may lack a write
    that was announced, or lacks that of the caller's token. Then it is loaded, if it can be.
    Each answer comes at once; none blocks or raises.
    """

    def find_by_words(self, query: Query, words: WordsSearch, depth: int) -> list[Candidate] | None:
        """Finds segments by words, as `LexicalSearch`."""

    def walk(self, query: Query, walk: Walk, depth: int, yields: Yields) -> list[Candidate] | None:
        """Walks from the names in the question, as `Graph`."""

    def latest(self, query: Query, depth: int, *, earliest_first: bool) -> list[Candidate] | None:
        """Finds the latest segments of the scope, or the earliest, as `Timeline`."""

    def mentioning(self, period: Period, query: Query, depth: int) -> list[Candidate] | None:
        """Finds segments that speak of a period, as `Timeline`."""

    def rows(
        self, tenant: TenantName, items: Sequence[ItemId], token: ConsistencyToken | None
    ) -> KnownRows | None:
        """Returns rows of a tenant, as `MemoryStore.load`."""

    def has_facts(self, tenant: TenantName, token: ConsistencyToken | None) -> bool | None:
        """Returns whether the tenant has facts, as `MemoryStore`."""

    async def load(self, tenant: TenantName, deadline: Deadline) -> bool:
        """Loads a tenant; False if it cannot be held, or the deadline passes first."""

    async def caught_up(
        self, tenant: TenantName, token: ConsistencyToken, deadline: Deadline
    ) -> bool:
        """Waits until the tenant lacks no write in memory; False if the deadline passes first."""

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """Returns how many of the items are in memory."""
