"""The leg of words: reads the question, and searches in the mode that is asked for."""

from __future__ import annotations

from serving.adapters.postgres.asked_words import read_words
from serving.adapters.postgres.bm25 import find_by_bm25
from serving.adapters.postgres.pool import Database
from serving.adapters.postgres.text_rank import find_all_then_any, find_any
from serving.adapters.postgres.word_statistics import WordStatisticsCache
from serving.adapters.postgres.words_planner import Budget
from serving.domain.budget import Deadline
from serving.domain.leg_options import WordsMode, WordsSearch
from serving.domain.query import Query
from serving.domain.ranking import Candidate


class PostgresLexicalSearch:
    """The port `LexicalSearch`."""

    def __init__(self, database: Database, budget: Budget | None = None) -> None:
        self._database = database
        self._budget = budget or Budget()
        self.statistics = WordStatisticsCache(database)

    async def close(self) -> None:
        """Ends what runs in the background."""
        await self.statistics.close()

    async def search(
        self, query: Query, words: WordsSearch, depth: int, enough: int, deadline: Deadline
    ) -> list[Candidate]:
        """Finds segments by words, best first, equal scores by id."""
        async with self._database.search(deadline) as connection:
            asked = await read_words(connection, query, depth)
            if asked is None:
                return []
            match words.mode:
                case WordsMode.BM25:
                    statistics = await self.statistics.of_tenant(connection, asked.tenant_id)
                    return await find_by_bm25(connection, asked, statistics, self._budget)
                case WordsMode.ANY:
                    return await find_any(connection, asked)
                case WordsMode.ALL_THEN_ANY:
                    return await find_all_then_any(
                        connection, asked, enough=enough, rank_gate=words.rank_gate
                    )
