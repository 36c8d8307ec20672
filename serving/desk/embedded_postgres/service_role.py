"""The role with which the service uses an embedded PostgreSQL: the owner of its tables.

`initdb` makes one role, a superuser, which can read and write files and leave every restriction.
The desk migrates with it, and gives the service another.
"""

from __future__ import annotations

import psycopg
from psycopg.conninfo import make_conninfo

from serving.adapters.postgres.connection.row_security import CALLER_ROLE

SERVICE_ROLE = "trivium"


def give_to_service(dsn: str) -> str:
    """Gives the service's role what the migrations have made; returns the DSN of that role.

    At each start, since a migration or a restored dump adds tables. `dsn` is that of the superuser.
    """
    with psycopg.connect(dsn) as connection:
        connection.execute(_CREATE_ROLE)
        for (statement,) in connection.execute(_OWN).fetchall():
            connection.execute(statement)
    return make_conninfo(dsn, user=SERVICE_ROLE)


_CREATE_ROLE = f"""
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{SERVICE_ROLE}') THEN
    CREATE ROLE {SERVICE_ROLE} LOGIN;
  END IF;
  GRANT {CALLER_ROLE} TO {SERVICE_ROLE};
  ALTER SCHEMA public OWNER TO {SERVICE_ROLE};
END $$
"""

# A sequence of a column follows its table, and what is part of an extension stays with that.
_OWN = f"""
SELECT format('ALTER TABLE %s OWNER TO {SERVICE_ROLE}', oid::regclass)
  FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
   AND relowner <> '{SERVICE_ROLE}'::regrole
   AND NOT EXISTS (SELECT FROM pg_depend AS part
                    WHERE part.classid = 'pg_class'::regclass AND part.objid = pg_class.oid
                      AND part.deptype IN ('a', 'i', 'e'))
 UNION ALL
SELECT format('ALTER ROUTINE %s OWNER TO {SERVICE_ROLE}', oid::regprocedure)
  FROM pg_proc
 WHERE pronamespace = 'public'::regnamespace AND proowner <> '{SERVICE_ROLE}'::regrole
   AND NOT EXISTS (SELECT FROM pg_depend AS part
                    WHERE part.classid = 'pg_proc'::regclass AND part.objid = pg_proc.oid
                      AND part.deptype = 'e')
"""
