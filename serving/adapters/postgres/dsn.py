"""Whether libpq can read a connection string."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict


def parses(dsn: str) -> bool:
    """Whether it does. Why not is not said: libpq quotes the text, which may hold a password."""
    try:
        conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return False
    return True
