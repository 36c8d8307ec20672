"""Psycopg's errors, turned into the service's at one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout, TooManyRequests

from serving.domain.errors import OverloadedError, StoreUnavailableError

REFUSED_RETRY_S = 0.1

_CLASS_OF_THE_STATEMENT = "42"
"""SQLSTATEs of syntax and names: their messages quote the statement, which holds no values."""


class RefusedStatementError(Exception):
    """PostgreSQL refused a statement, which is a fault of ours; holds nothing of any row."""

    def __init__(self, sqlstate: str, detail: str = "") -> None:
        super().__init__(sqlstate, detail)
        self.sqlstate = sqlstate
        self.detail = detail

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"PostgreSQL refused a statement with SQLSTATE {self.sqlstate}{detail}"


@contextmanager
def store_errors() -> Iterator[None]:
    """Raises the service's errors in place of psycopg's.

    The messages are ours: PostgreSQL's quote rows ("failing row contains"), so those of
    refused statements are not even chained.

    Raises:
        TimeoutError: The statement ran into its time limit, or was cancelled.
        OverloadedError: Too many wait for a connection.
        StoreUnavailableError: The server cannot be reached, or not at the moment, or has no schema
            yet.
        RefusedStatementError: Anything else, which is a fault of ours.
    """
    try:
        yield
    except errors.QueryCanceled as error:
        raise TimeoutError("the statement took too long") from error
    except TooManyRequests as error:
        raise OverloadedError("the connection pool", REFUSED_RETRY_S) from error
    except (
        psycopg.OperationalError,
        psycopg.InterfaceError,
        errors.ReadOnlySqlTransaction,
        errors.IdleInTransactionSessionTimeout,
    ) as error:
        raise StoreUnavailableError(_reason(error)) from error
    except errors.UndefinedTable as error:
        raise StoreUnavailableError("the schema is not there yet") from error
    except psycopg.Error as error:
        raise RefusedStatementError(
            error.sqlstate or type(error).__name__, _detail(error) or ""
        ) from None


def _reason(error: psycopg.Error) -> str:
    if isinstance(error, PoolTimeout):
        return "no connection in time"
    if error.sqlstate is None:
        return "the connection failed"
    return f"{type(error).__name__}, SQLSTATE {error.sqlstate}"


def _detail(error: psycopg.Error) -> str | None:
    """What may be told: the constraint, or what is wrong with the statement itself."""
    if (error.sqlstate or "").startswith(_CLASS_OF_THE_STATEMENT):
        return error.diag.message_primary
    return error.diag.constraint_name
