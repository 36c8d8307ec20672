"""The `Graph` port over a Neo4j that is reached by Bolt."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import LiteralString, TypeVar, cast

import neo4j
from neo4j.exceptions import (
    AuthError,
    ClientError,
    DriverError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
)

from serving.adapters.neo4j import related, statements, walks
from serving.adapters.neo4j.names import (
    NamedSpan,
    near_names_query,
    near_spans,
    question_spans,
)
from serving.adapters.neo4j.planning import BackgroundPlanning
from serving.adapters.neo4j.projection import (
    Row,
    fact_row,
    removed_rows,
    segment_row,
)
from serving.adapters.neo4j.search import Search
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, NotReadyError
from serving.domain.leg_options import Walk
from serving.domain.profile import Yields
from serving.domain.query import Query, Scope
from serving.domain.ranking import Candidate
from serving.domain.records import ItemId, ItemKind, TenantName
from serving.ports import GraphChanges

logger = logging.getLogger(__name__)

ROWS_PER_STATEMENT = 500
TIMED_OUT_CODE = "Neo.ClientError.Transaction.TransactionTimedOut"
REFUSAL_CODES = ("Neo.ClientError.Statement.", "Neo.ClientError.Schema.")
_NOTHING = Scope(tenant=TenantName(""), as_of=datetime(1970, 1, 1, tzinfo=UTC))
NOTHING_ASKED = {
    **related.parameters(Query(text="", scope=_NOTHING), (), depth=1),
    **Search(scope=_NOTHING, walk=Walk(), seeds=(), depth=1, yields=Yields.EVIDENCE).parameters(),
}
"""What every search can be planned by, and finds nothing with."""

PREPARE_EVERY_S = 0.5
"""How often a lost Neo4j is tried again."""

LOST_CONNECTION = (ServiceUnavailable, SessionExpired)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neo4jSettings:
    """Where the graph is and how it is spoken to.

    `near_names` is whether names that the question only nearly says are looked for
    always, or only where it says none exactly. Always costs a second round trip
    and 2 to 3 ms of processor time; by it the graph alone gains 3 points of
    recall@10 on LoCoMo's dev questions and 7 on MuSiQue's.
    """

    uri: str
    user: str = ""
    password: str = field(default="", repr=False)
    database: str = "neo4j"
    near_names: bool = False
    pool_size: int = 32
    connect_timeout_s: float = 1.0
    write_timeout_s: float = 60.0


class Neo4jGraph:
    """Segments, facts and the entities between them, in Neo4j 5.

    Nothing is opened before it is needed, and a lost Neo4j heals by itself: the
    next call after its return finds it.
    """

    def __init__(self, settings: Neo4jSettings) -> None:
        self._settings = settings
        self._opened: neo4j.AsyncDriver | None = None
        self._has_schema = False
        self._preparing: asyncio.Task[None] | None = None
        self._planning = BackgroundPlanning(self._plan)
        self._closing = asyncio.Event()

    async def prepare(self) -> None:
        """Sets up constraints and indexes and plans the usual searches; a repeat changes nothing.

        The other searches are planned in the background: nobody who never asks them need
        wait for them.
        """
        async with self._write_errors():
            await _twice_if_lost(self._set_up)
        for search in (*walks.USUAL, related.RELATED_SEGMENTS):
            await self._plan(search)
        self._planning.start(walks.OTHERS)

    async def search(
        self,
        query: Query,
        walk: Walk,
        seeds: Sequence[ItemId] | None,
        depth: int,
        yields: Yields,
        deadline: Deadline,
    ) -> list[Candidate]:
        """Walks from its seeds, one and two hops.

        The seeds are the entities that the segments `seeds` stand for; with None those
        whose names are among the question's runs of words, or, where none is, whose
        names it nearly says. Relations are compared in lower case.

        By activation, each hands its own on: to what mentions it and to its facts,
        spread over each by the root of their number, so that rare names and select
        relations count for more; on a second hop half of it. What arrives on several
        ways is added up. Relations that are not followed still take their share.

        By distance, the score is `1 / (hops + place / (count + 1))`, with the place
        from 0 of the last relation among the `count` that are followed; of several
        ways the nearest counts. What is equally near goes by the first of the segments
        `seeds` that leads there, then by id. An entity that is reached brings the
        segments that stand for it or, where none does, the evidence of the fact that led
        there; so among objects it finds objects, and in conversations what was said.
        Mentions do not count.

        What stands for a seed is found only from another one; but by activation, a
        name does find what stands for it.
        """
        search = Search(
            scope=query.scope,
            walk=walk,
            seeds=None if seeds is None else _segment_ids(seeds),
            depth=depth,
            yields=yields,
        )
        with _named_errors():
            async with asyncio.timeout(deadline.remaining()):
                if seeds is None:
                    return await self._search_by_names(query, search, deadline)
                return await self._find(search, (), deadline) or []

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> list[Candidate]:
        """Finds the segments that mention what the seeds mention, who said it among that.

        An entity with more than `REACHED_MENTIONS` mentions counts for nothing.
        """
        parameters = related.parameters(query, _segment_ids(seeds), depth)
        with _named_errors():
            async with asyncio.timeout(deadline.remaining()):
                [(found,)] = await self._run(
                    related.RELATED_SEGMENTS, parameters, deadline.remaining()
                )
        return related.candidates(cast(list[list[object]], found))

    async def apply(self, changes: GraphChanges) -> None:
        """Brings the graph to the given state in one transaction; a repeat changes nothing.

        Raises:
            DependencyError: Neo4j cannot be reached, or not now.
            ValueError: Neo4j refuses the rows, and would again.
        """
        async with self._write_errors():
            await _twice_if_lost(lambda: self._apply(changes))

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it still holds."""
        parameters: Row = {
            "tenant": tenant,
            "segments": [item.id for item in set(items) if item.kind is ItemKind.SEGMENT],
            "facts": [item.id for item in set(items) if item.kind is ItemKind.FACT],
        }
        return await self._count(statements.COUNT_ITEMS, parameters)

    async def count_entities(self, tenant: TenantName) -> int:
        """How many entities it holds for the tenant."""
        return await self._count(statements.COUNT_ENTITIES, {"tenant": tenant})

    async def close(self) -> None:
        """Closes all connections; the next call would open them again."""
        patience_s = 2 * self._settings.connect_timeout_s
        self._closing.set()
        if self._preparing is not None:
            # Not cancelled at once: the driver leaves a connection behind that it was just making.
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
        spans = question_spans(query.text)
        if self._settings.near_names:
            spans += await self._near_spans(query, deadline, misspelt=False)
        found = await self._find(search, spans, deadline)
        if found is None:
            spans = await self._near_spans(query, deadline, misspelt=True)
            found = await self._find(search, spans, deadline)
        return found or []

    async def _find(
        self, search: Search, spans: Sequence[NamedSpan], deadline: Deadline
    ) -> list[Candidate] | None:
        """What the walk finds, or None if there is no entity to start from."""
        if not spans and not search.seeds:
            return None
        parameters = search.parameters(spans)
        [(seeds, found)] = await self._run(search.statement, parameters, deadline.remaining())
        return search.read(cast(list[list[object]], found)) if seeds else None

    async def _near_spans(
        self, query: Query, deadline: Deadline, *, misspelt: bool
    ) -> list[NamedSpan]:
        tenant = query.scope.tenant
        lucene = near_names_query(tenant, query.text, misspelt=misspelt)
        if lucene is None:
            return []
        parameters: Row = {"tenant": tenant, "lucene": lucene}
        records = await self._run(walks.NEAR_NAMES, parameters, deadline.remaining())
        return near_spans(query.text, cast(list[str], records[0][0]), misspelt=misspelt)

    # ------------------------------------------------------------ writing

    async def _apply(self, changes: GraphChanges) -> None:
        timeout_s = self._settings.write_timeout_s
        with _refusals():
            async with (
                self._session(neo4j.WRITE_ACCESS) as session,
                await session.begin_transaction(timeout=timeout_s) as transaction,
            ):
                await _write(transaction, changes)
                await transaction.commit()

    # ------------------------------------------------------------ the driver

    async def _count(self, statement: LiteralString, parameters: Row) -> int:
        async with self._write_errors():
            records = await self._run(statement, parameters, self._settings.write_timeout_s)
        return int(records[0][0])

    async def _run(
        self,
        statement: LiteralString,
        given: Row,
        timeout_s: float,
    ) -> list[neo4j.Record]:
        """Runs one statement as a transaction of its own, which is one round trip.

        Raises:
            NotReadyError: The constraints and indexes are being made.
        """
        # The server ends it too, or an abandoned walk would go on. 0 would mean no limit.
        query = neo4j.Query(statement, timeout=max(timeout_s, 0.001))

        async def fetch() -> list[neo4j.Record]:
            await self._require_schema(timeout_s)
            return await self._fetch(query, given)

        return await _twice_if_lost(fetch, self._prepare_when_back)

    async def _set_up(self) -> None:
        for statement in statements.SCHEMA:
            query = neo4j.Query(statement, timeout=self._settings.write_timeout_s)
            await self._fetch(query, {}, neo4j.WRITE_ACCESS)
        self._has_schema = True

    async def _require_schema(self, timeout_s: float) -> None:
        """Looks once whether the constraints and indexes are there.

        What is planned while they are being made, by whomever, reads every node from then on:
        plans are kept for good, and Neo4j keeps one that it began before.
        """
        if self._has_schema:
            return
        query = neo4j.Query(statements.COUNT_INDEXES, timeout=max(timeout_s, 0.001))
        [(count,)] = await self._fetch(query, {"names": statements.INDEXES})
        if count < len(statements.INDEXES):
            raise NotReadyError("graph", "its indexes are being made")
        self._has_schema = True

    async def _plan(self, search: LiteralString) -> None:
        async with self._write_errors():
            await self._run(search, NOTHING_ASKED, self._settings.write_timeout_s)

    def _prepare_when_back(self) -> None:
        """Sees to it that a Neo4j that restarts has planned the searches before it is asked.

        Planning takes it seconds then, more than a caller has; each would ask it in vain. It may
        have lost its constraints and indexes, too, so these are looked for anew.
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
                logger.info("the graph is back and prepared")
                return

    async def _fetch(
        self, query: neo4j.Query, given: Row, access: str = neo4j.READ_ACCESS
    ) -> list[neo4j.Record]:
        async with self._session(access) as session:
            result = await session.run(query, given=given)
            return [record async for record in result]

    def _session(self, access: str) -> neo4j.AsyncSession:
        if self._opened is None:
            self._opened = self._open()
        return self._opened.session(database=self._settings.database, default_access_mode=access)

    def _open(self) -> neo4j.AsyncDriver:
        """Makes the driver, which connects when it is used."""
        settings = self._settings
        return neo4j.AsyncGraphDatabase.driver(
            settings.uri,
            auth=(settings.user, settings.password) if settings.user else None,
            connection_timeout=settings.connect_timeout_s,
            connection_acquisition_timeout=settings.write_timeout_s,
            max_connection_pool_size=settings.pool_size,
            telemetry_disabled=True,
            # They would name parts of statements in the log.
            notifications_min_severity=neo4j.NotificationMinimumSeverity.OFF,
        )

    @contextlib.asynccontextmanager
    async def _write_errors(self) -> AsyncIterator[None]:
        """Bounds what has no deadline, and names what goes wrong."""
        limit_s = self._settings.write_timeout_s
        try:
            with _named_errors():
                async with asyncio.timeout(limit_s):
                    yield
        except TimeoutError as error:
            why = f"Neo4j did not answer within {limit_s:g} s"
            raise DependencyError("graph", why) from error


def _segment_ids(items: Sequence[ItemId]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.id for item in items if item.kind is ItemKind.SEGMENT))


async def _write(transaction: neo4j.AsyncTransaction, changes: GraphChanges) -> None:
    """Removes, writes and tidies up, in this order.

    What the items referred to before is asked first, and is deleted at the end if
    nothing refers to it any more.
    """
    segments = [segment_row(change) for change in changes.segments]
    facts = [fact_row(change) for change in changes.facts]
    gone_segments = removed_rows(changes.removed, ItemKind.SEGMENT)
    gone_facts = removed_rows(changes.removed, ItemKind.FACT)

    touched = await _touched(transaction, [*segments, *gone_segments], [*facts, *gone_facts])
    await _in_chunks(transaction, statements.REMOVE_FACTS, gone_facts)
    await _in_chunks(transaction, statements.REMOVE_SEGMENTS, gone_segments)
    await _in_chunks(transaction, statements.WRITE_SEGMENTS, segments)
    await _in_chunks(transaction, statements.WRITE_FACTS, facts)
    await (await transaction.run(statements.TIDY, given={"touched": touched})).consume()


async def _touched(
    transaction: neo4j.AsyncTransaction, segments: Sequence[Row], facts: Sequence[Row]
) -> list[str]:
    names = [
        [{"tenant": row["tenant"], "id": row["id"]} for row in rows] for rows in (segments, facts)
    ]
    result = await transaction.run(
        statements.TOUCHED, given={"segments": names[0], "facts": names[1]}
    )
    record = await result.single(strict=True)
    return cast(list[str], record[0])


async def _in_chunks(
    transaction: neo4j.AsyncTransaction, statement: LiteralString, rows: Sequence[Row]
) -> None:
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        result = await transaction.run(
            statement, given={"rows": rows[start : start + ROWS_PER_STATEMENT]}
        )
        await result.consume()


async def _twice_if_lost(
    attempt: Callable[[], Awaitable[Value]], on_loss: Callable[[], None] = lambda: None
) -> Value:
    """Makes another attempt at once where the connection was lost.

    One that was pooled before Neo4j went away says so only when it is used.

    Args:
        attempt: What is done, once or twice.
        on_loss: Called in between.
    """
    try:
        return await attempt()
    except LOST_CONNECTION:
        on_loss()
        return await attempt()


@contextlib.contextmanager
def _named_errors() -> Iterator[None]:
    """Turns what the driver raises into an error of ours, without any text of a statement."""
    try:
        yield
    except LOST_CONNECTION as error:
        raise DependencyError("graph", "Neo4j cannot be reached") from error
    except AuthError as error:
        raise DependencyError("graph", "Neo4j refused the credentials") from error
    except Neo4jError as error:
        if _code(error).startswith(TIMED_OUT_CODE):
            raise TimeoutError from error
        raise DependencyError("graph", f"Neo4j answered {_code(error)}") from error
    except DriverError as error:
        why = f"the driver of Neo4j failed ({type(error).__name__})"
        raise DependencyError("graph", why) from error


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Raises ValueError where the fault is in the rows, so that nobody tries them for ever."""
    try:
        yield
    except ClientError as error:
        if _code(error).startswith(REFUSAL_CODES):
            raise ValueError(f"Neo4j refuses the rows ({_code(error)})") from error
        raise


def _code(error: Neo4jError) -> str:
    return error.code or "an error without a code"
