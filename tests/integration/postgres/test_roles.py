"""PostgreSQL shows a caller the rows of its tenant alone, and the service its tables alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.errors import StatementRejectedError
from serving.adapters.postgres.connection.migrations import migrate
from serving.adapters.postgres.connection.row_security import CALLER_ROLE
from serving.desk.embedded_postgres.service_role import give_to_service
from serving.domain.budget import Deadline
from serving.domain.items.period import Period
from serving.domain.items.records import Item, TenantName
from tests.fixtures.local_service import local_service
from tests.integration.postgres.log.following import run, write
from tests.support.builders import NOON, TENANT, days, fact, segment
from trivium import Segment

pytestmark = pytest.mark.postgres


OTHER = TenantName("other")
WITH_TENANT = ("tenant", "segment", "fact", "entity", "access_count")
"""The tables that hold something of a tenant and that a caller reads."""


@pytest.fixture
async def both(postgres: Postgres) -> Postgres:
    for tenant, names in ((TENANT, "a"), (OTHER, "abc")):
        items: list[Item] = [
            *(segment(name, "Goa", entities=(f"Goa {name}",)) for name in names),
            *(fact(f"f{name}", f"Ann {name}", "likes", "Goa") for name in names),
        ]
        await write(postgres, *items, tenant=tenant)
        postgres.access.record(tenant, [item.item for item in items])
    await postgres.access.flush()
    return postgres


async def rows_for(postgres: Postgres, tenant: TenantName | None, statement: str) -> list[Any]:
    async with postgres.database.search(Deadline.after(60), tenant) as connection:
        return await (await connection.execute(statement.encode())).fetchall()


async def counts(postgres: Postgres, tenant: TenantName | None) -> dict[str, int]:
    """How many rows of each table a statement without any condition sees."""
    statement = "SELECT " + ", ".join(f"(SELECT count(*) FROM {table})" for table in WITH_TENANT)
    [row] = await rows_for(postgres, tenant, statement)
    return dict(zip(WITH_TENANT, row, strict=True))


async def test_a_statement_without_a_condition_sees_one_tenant(both: Postgres) -> None:
    mine, theirs = await counts(both, TENANT), await counts(both, OTHER)
    again = await counts(both, TENANT)

    assert mine == {"tenant": 1, "segment": 1, "fact": 1, "entity": 3, "access_count": 2}
    assert theirs == {"tenant": 1, "segment": 3, "fact": 3, "entity": 7, "access_count": 6}
    assert again == mine


async def test_a_statement_for_no_tenant_sees_none(both: Postgres) -> None:
    unknown = await counts(both, TenantName("nobody"))

    assert await counts(both, None) == unknown == dict.fromkeys(WITH_TENANT, 0)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT FROM api_key",
        "SELECT FROM tombstone",
        "SELECT tombstone_key FROM meta",
        "SELECT vector FROM embedding",
        "SELECT erased_id FROM change_log",
        "SELECT reason FROM dead_letter",
        "UPDATE segment SET text = ''",
        "DELETE FROM fact",
        "INSERT INTO tenant (name, text_search_config) VALUES ('x', 'english')",
    ],
)
async def test_a_caller_reads_nothing_else_and_writes_nothing(
    postgres: Postgres, statement: str
) -> None:
    with pytest.raises(StatementRejectedError, match="42501"):
        await rows_for(postgres, TENANT, statement)


async def test_words_and_times_are_still_found_by_index(both: Postgres) -> None:
    periods = [Period(NOON + days(n), NOON + days(n + 1)) for n in range(1000)]
    said = [segment(f"s{n}", f"word{n}", mentions=(each,)) for n, each in enumerate(periods)]
    await write(both, *said)
    await run(both, "ANALYZE segment")

    for condition, operators in (
        ("tsv @@ 'word7'::tsquery AND tags && '{k:turn}' AND tags @> '{k:turn}'", "@@ && @>"),
        ("mentions && tstzrange('2026-03-04', '2026-03-05')", "&&"),
    ):
        statement = f"EXPLAIN SELECT id FROM segment WHERE tenant_id = 1 AND {condition}"
        plan = [line for (line,) in await rows_for(both, TENANT, statement)]
        indexed = "".join(line for line in plan if "Index Cond" in line)
        assert all(each in indexed for each in operators.split()), plan


@pytest.fixture
def plain_account(empty_dsn: str) -> Iterator[str]:
    """An empty database, as an account that may neither create roles nor change functions."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION btree_gin")
        connection.execute("CREATE EXTENSION btree_gist")
        connection.execute("CREATE ROLE plain LOGIN")
        connection.execute("GRANT ALL ON SCHEMA public TO plain")
    yield make_conninfo(empty_dsn, user="plain")
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("DROP OWNED BY plain")
        connection.execute("DROP ROLE plain")


def statements_of_page(account: str) -> list[str]:
    """What docs/security.md tells an administrator to run for an account."""
    page = Path("docs/security.md").read_text(encoding="utf-8")
    [statements] = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    return str(statements).replace("<the account of the service>", account).split(";\n")


async def of_plain_account(dsn: str) -> str:
    """The account that statements for a caller run as, once a row was found by it."""
    await migrate(dsn)
    async with Postgres(dsn) as postgres:
        await write(postgres, segment("a", "Goa"))
        assert (await counts(postgres, TENANT))["segment"] == 1
        [(account,)] = await rows_for(postgres, TENANT, "SELECT current_user::text")
    return str(account)


async def test_account_without_permission_works_without_row_security(
    plain_account: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await of_plain_account(plain_account) == "plain"
    assert "row-level security is off" in caplog.text


async def test_administrator_grants_row_security_to_an_account(
    plain_account: str, empty_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        for statement in statements_of_page("plain"):
            with contextlib.suppress(psycopg.errors.DuplicateObject):  # of another database
                connection.execute(statement.encode())

    assert await of_plain_account(plain_account) == CALLER_ROLE
    assert "row-level security is off" not in caplog.text


async def test_connection_older_than_migration_is_restricted(empty_dsn: str) -> None:
    async with Postgres(empty_dsn, search_connections=1) as postgres:
        assert not await postgres.store.ready()
        await migrate(empty_dsn)
        await write(postgres, segment("a", "Goa"))
        account = await rows_for(postgres, TENANT, "SELECT current_user::text")
        assert account == [(CALLER_ROLE,)]


@pytest.mark.neo4j
async def test_service_role_answers_and_erases(postgres_dsn: str, neo4j_uri: str) -> None:
    await migrate(postgres_dsn)
    dsn = give_to_service(postgres_dsn)
    assert give_to_service(postgres_dsn) == dsn

    async with local_service(dsn, neo4j_uri) as memory:
        written = await memory.ingest([Segment(id="t1", text="Mara lives in Zanzibar.")])
        found = await memory.retrieve(
            "Where is Zanzibar?", consistency_token=written.consistency_token
        )
        erased = await memory.forget(segment_ids=["t1"])

    assert [hit.id for hit in found.hits] == ["t1"]
    assert erased.segment_count == 1


@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE postgres",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "ALTER ROLE trivium SUPERUSER",
        "CREATE ROLE another",
        "SELECT rolpassword FROM pg_authid",
    ],
)
async def test_service_role_has_no_rights_beyond_its_tables(
    statement: str, postgres_dsn: str
) -> None:
    await migrate(postgres_dsn)

    with (
        psycopg.connect(give_to_service(postgres_dsn)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())
