"""libpq connection strings."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

CONNECT_TIMEOUT_S = 5


def parses(dsn: str) -> bool:
    """Whether libpq can parse the string. The reason is withheld: it may quote a password."""
    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return False
    return True


def with_defaults(dsn: str) -> str:
    """Adds the defaults that a connection string does not set.

    An unresponsive server is given up after `CONNECT_TIMEOUT_S`. The session's time zone is always
    UTC.
    """
    given = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    defaults = {
        "application_name": "trivium",
        "connect_timeout": str(CONNECT_TIMEOUT_S),
        "tcp_user_timeout": str(CONNECT_TIMEOUT_S * 1000),
    }
    options = f"{given.get('options', '')} -c TimeZone=UTC".strip()
    return make_conninfo("", **{**defaults, **given, "options": options})
