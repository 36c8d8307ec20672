"""Ports over a view in memory, which is brought up to date before each answer."""

from __future__ import annotations

from dataclasses import dataclass

from serving.adapters.resident import TenantsInMemory
from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsMode, WordsSearch
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.words import LexicalSearch


async def brought_up(view: TenantsInMemory, tenant: TenantName) -> bool:
    """Loads the tenant and all that was written; false for one that does not exist.

    Until the next await it is up to date: an announcement may come at any.
    """
    await view.advance()
    while await view.load(tenant, Deadline.after(60)):
        if view.current(tenant) is not None:
            return True
        await view.advance()
    return False


@dataclass(frozen=True, slots=True)
class ViewedWords:
    """A `LexicalSearch` that a view answers where it can, and says so if it cannot."""

    view: TenantsInMemory
    store: LexicalSearch

    async def search(
        self, query: Query, words: WordsSearch, depth: int, enough: int, deadline: Deadline
    ) -> list[Candidate]:
        if deadline.passed:
            raise TimeoutError
        tenant = query.scope.tenant
        exists = await brought_up(self.view, tenant)
        found = self.view.find_by_words(query, words, depth)
        held = self.view.current(tenant)
        must = exists and words.mode is WordsMode.BM25 and held is not None and not held.has_hidden
        assert (found is not None) == must
        if found is not None:
            return found
        return await self.store.search(query, words, depth, enough, deadline)
