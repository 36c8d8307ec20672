"""The lexical leg: parses the question and searches in the requested mode."""

from __future__ import annotations

from serving.adapters.postgres.connection.notifications import Notifications
from serving.adapters.postgres.connection.pool import Database
from serving.adapters.postgres.words.bm25 import find_by_bm25
from serving.adapters.postgres.words.query_plan import Budget
from serving.adapters.postgres.words.question_words import parse_question, parts_of
from serving.adapters.postgres.words.text_rank import find_all_then_any, find_any
from serving.adapters.postgres.words.word_statistics import WordStatisticsCache
from serving.domain.budget import Deadline
from serving.domain.questions.query import Query
from serving.domain.ranking.leg_options import WordsMode, WordsSearch
from serving.domain.ranking.ranked_list import Candidate

BUDGET = Budget()


class PostgresLexicalSearch:
    """`LexicalSearch` in PostgreSQL."""

    def __init__(self, database: Database, notifications: Notifications) -> None:
        self._database = database
        self.statistics = WordStatisticsCache(database, notifications)

    async def close(self) -> None:
        """Cancels background tasks."""
        await self.statistics.close()

    async def search(
        self, query: Query, words: WordsSearch, depth: int, enough: int, deadline: Deadline
    ) -> list[Candidate]:
        async with self._database.search(deadline, query.scope.tenant) as connection:
            question = await parse_question(connection, query, depth)
            if question is None:
                return []
            match words.mode:
                case WordsMode.BM25:
                    statistics = await self.statistics.of_tenant(connection, question.tenant_id)
                    return await find_by_bm25(
                        connection, question, statistics, BUDGET, parts_of(words)
                    )
                case WordsMode.ANY:
                    return await find_any(connection, question, parts_of(words))
                case WordsMode.ALL_THEN_ANY:
                    return await find_all_then_any(
                        connection,
                        question,
                        parts_of(words),
                        enough=enough,
                        rank_gate=words.rank_gate,
                    )
