"""`Graph` in Neo4j, over Bolt."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import LiteralString, cast

import neo4j

from serving.adapters.neo4j import statements, walks
from serving.adapters.neo4j.errors import driver_errors, rejected_rows, retry_once_if_lost
from serving.adapters.neo4j.names import near_names_query
from serving.adapters.neo4j.planning import BackgroundPlanning
from serving.adapters.neo4j.rows import Row, write_changes
from serving.adapters.neo4j.search import Search, candidates, related_candidates, related_parameters
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, NotReadyError
from serving.domain.items.records import ItemId, ItemKind, TenantName
from serving.domain.questions.named_entities import NamedSpan, near_spans, question_spans
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.leg_options import Walk
from serving.domain.ranking.profile import Yields
from serving.domain.ranking.ranked_list import Candidate
from serving.ports.graph import GraphChanges

logger = logging.getLogger(__name__)

_NO_SCOPE = Scope(tenant=TenantName(""), as_of=datetime(1970, 1, 1, tzinfo=UTC))
PLANNING_PARAMETERS = {
    **related_parameters(Query(text="", scope=_NO_SCOPE), (), depth=1),
    **Search(scope=_NO_SCOPE, walk=Walk(), seeds=(), depth=1, yields=Yields.EVIDENCE).parameters(),
}
"""Parameters with which any search can be planned; they find nothing."""

MAX_CONNECTIONS = 32

FAILED = "FAILED"
OWNERS: tuple[LiteralString, ...] = ("CONSTRAINT", "INDEX")
"""The kinds by which an index is dropped: one of a constraint goes with its constraint."""

PREPARE_EVERY_S = 0.5
"""The interval at which a lost Neo4j is retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neo4jSettings:
    """The connection to Neo4j."""

    uri: str
    user: str = ""
    password: str = field(default="", repr=False)
    database: str = "neo4j"
    connect_timeout_s: float = 1.0
    write_timeout_s: float = 60.0

    def open_driver(self) -> neo4j.AsyncDriver:
        """A driver, which connects at its first use."""
        return neo4j.AsyncGraphDatabase.driver(
            self.uri,
            auth=(self.user, self.password) if self.user else None,
            connection_timeout=self.connect_timeout_s,
            connection_acquisition_timeout=self.write_timeout_s,
            max_connection_pool_size=MAX_CONNECTIONS,
            telemetry_disabled=True,
            # Notifications would log parts of statements.
            notifications_min_severity=neo4j.NotificationMinimumSeverity.OFF,
        )


class Neo4jGraph:
    """Segments, facts and entities in Neo4j 5.

    Connects at the first call. After an outage of Neo4j the next call reconnects.
    """

    def __init__(self, settings: Neo4jSettings) -> None:
        self._settings = settings
        self._opened: neo4j.AsyncDriver | None = None
        self._has_schema = False
        self._preparing: asyncio.Task[None] | None = None
        self._planning = BackgroundPlanning(self._plan)
        self._closing = asyncio.Event()

    async def prepare(self) -> None:
        """Creates constraints and indexes. Idempotent.

        The searches are planned in the background, those of the shipped profiles first. After a
        start that takes Neo4j 12 s of CPU, which writes must not wait for.
        """
        async with self._write_errors():
            await retry_once_if_lost(self._set_up)
        self._planning.start((*walks.DEFAULT, walks.RELATED_SEGMENTS, *walks.CUSTOM))

    async def search(
        self,
        query: Query,
        walk: Walk,
        seeds: Sequence[ItemId] | None,
        depth: int,
        yields: Yields,
        deadline: Deadline,
    ) -> list[Candidate]:
        """Walks one or two hops from the seeds.

        The seeds are the entities that the segments `seeds` are. With None they are the entities
        whose names are runs of words in the question or, if there is none, near matches of such
        names. With `walk.mentions` they are both, and what the segments mention too. Relations are
        compared in lower case.

        By activation, an entity passes its activation on to its mentions and to its facts, divided
        by the square root of their number, so that rare names and specific relations weigh more;
        a second hop passes on half of it. Contributions over several paths are summed. Relations
        that are not followed still take their share.

        By distance, the score is `1 / (hops + place / (count + 1))`, where `place` counts from 0
        and is that of the last relation among the `count` relations followed. The shortest path
        counts; ties go by the order of `seeds`, then by id. A reached entity yields the segments
        that are that entity or, if there are none, the evidence of the fact that led to it.
        Mentions are ignored.

        A segment that is a seed's entity, or the only one to bring a seed that it mentions, is
        found only from another seed, except by activation from a name.
        """
        search = Search(
            scope=query.scope,
            walk=walk,
            seeds=None if seeds is None else _segment_ids(seeds),
            depth=depth,
            yields=yields,
        )
        with driver_errors():
            async with asyncio.timeout(deadline.remaining()):
                if seeds is None or walk.mentions:
                    return await self._search_by_names(query, search, deadline)
                return await self._find(search, (), deadline) or []

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> list[Candidate]:
        """Finds segments that share mentions with the seeds; a segment mentions its speaker.

        Entities with more than `MAX_MENTIONS` mentions are ignored.
        """
        parameters = related_parameters(query, _segment_ids(seeds), depth)
        with driver_errors():
            async with asyncio.timeout(deadline.remaining()):
                [(found,)] = await self._run(
                    walks.RELATED_SEGMENTS, parameters, deadline.remaining()
                )
        return related_candidates(cast(list[list[object]], found))

    async def apply(self, changes: GraphChanges) -> None:
        """Applies the changes in one transaction. Idempotent.

        Raises ValueError if Neo4j rejects the rows; a retry would fail too.
        """
        async with self._write_errors():
            await retry_once_if_lost(lambda: self._apply(changes))

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        parameters: Row = {
            "tenant": tenant,
            "segments": [item.id for item in set(items) if item.kind is ItemKind.SEGMENT],
            "facts": [item.id for item in set(items) if item.kind is ItemKind.FACT],
        }
        return await self._count(statements.COUNT_ITEMS, parameters)

    async def count_entities(self, tenant: TenantName) -> int:
        return await self._count(statements.COUNT_ENTITIES, {"tenant": tenant})

    async def close(self) -> None:
        """Closes all connections; a later call reopens them."""
        patience_s = 2 * self._settings.connect_timeout_s
        self._closing.set()
        if self._preparing is not None:
            # Not cancelled at once: the driver would leak a connection that it is opening.
            await asyncio.wait([self._preparing], timeout=patience_s)
            self._preparing.cancel()
        await self._planning.stop(patience_s)
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()
        self._closing.clear()

    # ------------------------------------------------------------ searching

    async def _search_by_names(
        self, query: Query, search: Search, deadline: Deadline
    ) -> list[Candidate]:
        found = await self._find(search, question_spans(query.text), deadline)
        if found is None:
            near = await self._near_spans(query, deadline)
            found = await self._find(search, near, deadline)
        return found or []

    async def _find(
        self, search: Search, spans: Sequence[NamedSpan], deadline: Deadline
    ) -> list[Candidate] | None:
        """The candidates of the walk; None if there is no entity to start from."""
        if not spans and not search.seeds:
            return None
        parameters = search.parameters(spans)
        [(seeds, found)] = await self._run(search.statement, parameters, deadline.remaining())
        if not seeds:
            return None
        return candidates(cast(list[list[object]], found), search.yields, search.walk.order)

    async def _near_spans(self, query: Query, deadline: Deadline) -> list[NamedSpan]:
        tenant = query.scope.tenant
        lucene = near_names_query(tenant, query.text)
        if lucene is None:
            return []
        parameters: Row = {"tenant": tenant, "lucene": lucene}
        records = await self._run(walks.NEAR_NAMES, parameters, deadline.remaining())
        names = cast(list[str], records[0][0])
        return near_spans(query.text, names)

    # ------------------------------------------------------------ writing

    async def _apply(self, changes: GraphChanges) -> None:
        timeout_s = self._settings.write_timeout_s
        with rejected_rows():
            async with (
                self._session(neo4j.WRITE_ACCESS) as session,
                await session.begin_transaction(timeout=timeout_s) as transaction,
            ):
                await write_changes(transaction, changes)
                await transaction.commit()

    # ------------------------------------------------------------ the driver

    async def _count(self, statement: LiteralString, parameters: Row) -> int:
        async with self._write_errors():
            records = await self._run(statement, parameters, self._settings.write_timeout_s)
        return int(records[0][0])

    async def _run(
        self, statement: LiteralString, given: Row, timeout_s: float
    ) -> list[neo4j.Record]:
        """Runs a statement in a transaction, in one round trip; raises as `_require_schema`."""
        # The server enforces the limit too, or an abandoned walk would continue. 0 means no limit.
        query = neo4j.Query(statement, timeout=max(timeout_s, 0.001))

        async def fetch() -> list[neo4j.Record]:
            await self._require_schema(timeout_s)
            return await self._fetch(query, given)

        return await retry_once_if_lost(fetch, self._prepare_when_back)

    async def _set_up(self) -> None:
        timeout_s = self._settings.write_timeout_s
        failed = [name for name, state in await self._index_states(timeout_s) if state == FAILED]
        # "IF NOT EXISTS" keeps an index that has FAILED, as on a full disk, also in a constraint.
        drops = [f"DROP {kind} {name} IF EXISTS" for name in failed for kind in OWNERS]
        for statement in (*drops, *statements.SCHEMA):
            query = neo4j.Query(statement, timeout=timeout_s)
            await self._fetch(query, {}, neo4j.WRITE_ACCESS)
        self._has_schema = True

    async def _require_schema(self, timeout_s: float) -> None:
        """Checks once that the constraints and indexes exist.

        A search planned before they exist reads every node, and its plan is never replaced.

        Raises:
            NotReadyError: They are being created.
            DependencyError: One could not be created; `prepare` creates it again.
        """
        if self._has_schema:
            return
        states = [state for _, state in await self._index_states(timeout_s)]
        if FAILED in states:
            raise DependencyError("graph", "Neo4j could not create an index; is its disk full?")
        if states.count("ONLINE") < len(statements.INDEXES):
            raise NotReadyError("graph", "the indexes of the graph are being created")
        self._has_schema = True

    async def _index_states(self, timeout_s: float) -> list[tuple[LiteralString, str]]:
        query = neo4j.Query(statements.INDEX_STATES, timeout=max(timeout_s, 0.001))
        found: dict[str, str] = dict(await self._fetch(query, {"names": statements.INDEXES}))
        return [(name, found[name]) for name in statements.INDEXES if name in found]

    async def _plan(self, search: LiteralString) -> None:
        async with self._write_errors():
            await self._run(search, PLANNING_PARAMETERS, self._settings.write_timeout_s)

    def _prepare_when_back(self) -> None:
        """Prepares Neo4j in the background as soon as it is reachable again.

        After a restart planning takes seconds, more than a caller's deadline, so every search would
        time out. Constraints and indexes may be lost, too, and are checked again.
        """
        self._has_schema = False
        if self._closing.is_set():
            return
        if self._preparing is None or self._preparing.done():
            self._preparing = asyncio.create_task(self._prepare_until_done(), name="graph-prepare")

    async def _prepare_until_done(self) -> None:
        while not self._closing.is_set():
            try:
                await self.prepare()
            except DependencyError:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), PREPARE_EVERY_S)
            else:
                logger.info("graph is reachable again and prepared")
                return

    async def _fetch(
        self, query: neo4j.Query, given: Row, access: str = neo4j.READ_ACCESS
    ) -> list[neo4j.Record]:
        async with self._session(access) as session:
            result = await session.run(query, given=given)
            return [record async for record in result]

    def _session(self, access: str) -> neo4j.AsyncSession:
        if self._opened is None:
            self._opened = self._settings.open_driver()
        return self._opened.session(database=self._settings.database, default_access_mode=access)

    @contextlib.asynccontextmanager
    async def _write_errors(self) -> AsyncIterator[None]:
        """Limits the time of calls without a deadline, and converts errors."""
        limit_s = self._settings.write_timeout_s
        try:
            with driver_errors():
                async with asyncio.timeout(limit_s):
                    yield
        except TimeoutError as error:
            why = f"Neo4j did not answer within {limit_s:g} s"
            raise DependencyError("graph", why) from error


def _segment_ids(items: Sequence[ItemId]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.id for item in items if item.kind is ItemKind.SEGMENT))
