"""The role of the service on a desk: what it needs, and no more."""

from __future__ import annotations

import psycopg
import pytest

from serving.adapters.postgres.connection.migrations import migrate
from serving.desk.embedded_postgres.service_role import give_to_service
from tests.fixtures.local_service import local_service
from trivium import Segment

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j]


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
