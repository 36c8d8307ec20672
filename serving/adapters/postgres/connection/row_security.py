"""Row-level security: a statement for a caller sees the rows of its tenant alone.

The policies are in schema/0001_schema.sql. They hold for every role but the tables' owner,
which the projections use, since they read all tenants. Statements for a caller run as
`CALLER_ROLE`, with the tenant in a setting of the connection.

PostgreSQL checks a policy before it calls any function that might show a row to somebody else, and
takes the operators of the search by words for such: without more, a search would read all rows of a
tenant and not its index (36 ms instead of 0.5 in a tenant of 25,000). So they are declared
LEAKPROOF, which they are: they return whether they match, and raise nothing that depends on the
values.
"""

from __future__ import annotations

import logging

import psycopg
from psycopg.sql import SQL, Identifier

from serving.adapters.postgres.connection.statements import Connection

logger = logging.getLogger(__name__)

CALLER_ROLE = "trivium_caller"
"""One role for all databases of a server; it can do nothing but read tables."""

SEARCH_OPERATORS = (
    "pg_catalog.ts_match_vq(tsvector, tsquery)",
    "pg_catalog.arrayoverlap(anyarray, anyarray)",
    "pg_catalog.arraycontains(anyarray, anyarray)",
    "pg_catalog.multirange_overlaps_range(anymultirange, anyrange)",
)


class CallerConnection(Connection):
    """A connection for statements of one caller at a time."""

    _tenant: str | None = None

    async def see_only(self, tenant: str) -> None:
        """Restricts the following statements to the rows of a tenant; "" is none.

        Costs a round trip if they were restricted to another before.
        """
        if self._tenant != tenant:
            self._tenant = None  # unknown if this is cancelled
            await self.execute(_SEE_ONLY, [tenant, CALLER_ROLE], prepare=True)
            self._tenant = tenant


# The role is missing until the first migration, and where it may not be created.
_SEE_ONLY = """
SELECT set_config('trivium.tenant', %s::text, false),
       set_config('role', coalesce(
         (SELECT rolname::text FROM pg_roles
           WHERE rolname = %s::text AND pg_has_role(session_user, oid, 'MEMBER')
             AND has_table_privilege(oid, to_regclass('segment'), 'SELECT')), 'none'), false)
"""


async def prepare_row_security(connection: Connection) -> None:
    """Creates the role, and lets it read the tables; the schema is the latest.

    At each start, since dumps and upgrades of PostgreSQL keep neither the role nor its privileges.
    Without the rights to do this the service works as before, and says so.
    """
    try:
        async with connection.transaction():
            await connection.execute(_CREATE_ROLE)
            await connection.execute(_JOIN_ROLE)
            for function in SEARCH_OPERATORS:
                cursor = await connection.execute(_IS_LEAKING, [function])
                if cursor.rowcount:
                    await connection.execute(f"ALTER FUNCTION {function} LEAKPROOF".encode())
            for statement in _GRANTS:
                role = Identifier(CALLER_ROLE)
                await connection.execute(SQL(statement).format(role=role))
    except psycopg.errors.InsufficientPrivilege as error:
        logger.warning(
            "row-level security is off; docs/security.md says what an administrator can run",
            extra={"reason": str(error).splitlines()[0]},
        )


_IS_LEAKING = "SELECT FROM pg_proc WHERE oid = %s::regprocedure AND NOT proleakproof"

# Roles belong to the server: another database of it may create the same at this moment.
_CREATE_ROLE = f"""
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{CALLER_ROLE}') THEN
    CREATE ROLE {CALLER_ROLE} NOLOGIN;
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$
"""

# An administrator may have granted it to an account that could not do so itself.
_JOIN_ROLE = f"""
DO $$ BEGIN
  IF NOT pg_has_role(session_user, '{CALLER_ROLE}', 'MEMBER') THEN
    GRANT {CALLER_ROLE} TO SESSION_USER;
  END IF;
END $$
"""

# Neither API keys nor the key of the tombstones, which is in `meta`.
_GRANTS = (
    "GRANT SELECT ON tenant, segment, fact, entity, access_count, projection_state TO {role}",
    "GRANT SELECT (schema_version, log_epoch) ON meta TO {role}",
)
