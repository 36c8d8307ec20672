"""Converts psycopg's errors into the service's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout, TooManyRequests

from serving.domain.errors import OverloadedError, StoreUnavailableError

POOL_RETRY_S = 0.1

_SYNTAX_ERROR_CLASS = "42"
"""SQLSTATE class of syntax and name errors. Their messages quote the statement, never a row."""


class StatementRejectedError(Exception):
    """PostgreSQL rejected a statement because of a bug in the service; quotes no stored data."""

    def __init__(self, sqlstate: str, detail: str = "") -> None:
        super().__init__(sqlstate, detail)
        self.sqlstate = sqlstate
        self.detail = detail

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"PostgreSQL rejected a statement with SQLSTATE {self.sqlstate}{detail}"


@contextmanager
def store_errors() -> Iterator[None]:
    """Raises the service's errors in place of psycopg's.

    PostgreSQL's messages may quote rows ("failing row contains"), so they are not copied, and a
    rejected statement's error is not chained.

    Raises:
        TimeoutError: The statement exceeded its time limit or was cancelled.
        OverloadedError: Too many callers wait for a connection.
        StoreUnavailableError: The server is unreachable or temporarily unavailable, or the schema
            does not exist.
        StatementRejectedError: Any other error, which is a bug in the service.
    """
    try:
        yield
    except errors.QueryCanceled as error:
        raise TimeoutError("the statement took too long") from error
    except TooManyRequests as error:
        raise OverloadedError("the connection pool", POOL_RETRY_S) from error
    except (
        psycopg.OperationalError,
        psycopg.InterfaceError,
        errors.ReadOnlySqlTransaction,
        errors.IdleInTransactionSessionTimeout,
    ) as error:
        raise StoreUnavailableError(_reason(error)) from error
    except errors.UndefinedTable as error:
        raise StoreUnavailableError("the schema does not exist") from error
    except psycopg.Error as error:
        raise StatementRejectedError(
            error.sqlstate or type(error).__name__, _safe_detail(error) or ""
        ) from None


def _reason(error: psycopg.Error) -> str:
    if isinstance(error, PoolTimeout):
        return "no connection in time"
    if error.sqlstate is None:
        return "the connection failed"
    return f"{type(error).__name__}, SQLSTATE {error.sqlstate}"


def _safe_detail(error: psycopg.Error) -> str | None:
    """The message of a syntax error, otherwise the name of the violated constraint."""
    if (error.sqlstate or "").startswith(_SYNTAX_ERROR_CLASS):
        return error.diag.message_primary
    return error.diag.constraint_name
