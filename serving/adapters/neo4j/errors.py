"""Conversion of the driver's errors, and the retry after a lost connection."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from neo4j import exceptions

from serving.domain.errors import DependencyError

TIMED_OUT_CODE = "Neo.ClientError.Transaction.TransactionTimedOut"
REJECTION_CODES = ("Neo.ClientError.Statement.", "Neo.ClientError.Schema.")
LOST_CONNECTION = (exceptions.ServiceUnavailable, exceptions.SessionExpired)

Value = TypeVar("Value")


async def retry_once_if_lost(
    attempt: Callable[[], Awaitable[Value]], on_loss: Callable[[], None] = lambda: None
) -> Value:
    """Repeats an attempt at once if the connection was lost.

    A connection pooled before Neo4j went away reports its loss only when it is used.
    """
    try:
        return await attempt()
    except LOST_CONNECTION:
        on_loss()
        return await attempt()


@contextlib.contextmanager
def driver_errors() -> Iterator[None]:
    """Raises the service's errors in place of the driver's, without the text of any statement.

    Raises:
        TimeoutError: The statement exceeded its time limit.
        DependencyError: Neo4j is unreachable or failed.
    """
    try:
        yield
    except LOST_CONNECTION as error:
        raise DependencyError("graph", "Neo4j cannot be reached") from error
    except exceptions.AuthError as error:
        raise DependencyError("graph", "Neo4j rejected the credentials") from error
    except exceptions.Neo4jError as error:
        if _code(error).startswith(TIMED_OUT_CODE):
            raise TimeoutError from error
        stays = isinstance(error, exceptions.DatabaseError)
        advice = "; start it again if that stays" if stays else ""
        raise DependencyError("graph", f"Neo4j answered {_code(error)}{advice}") from error
    except exceptions.DriverError as error:
        reason = f"the driver of Neo4j failed ({type(error).__name__})"
        raise DependencyError("graph", reason) from error


@contextlib.contextmanager
def rejected_rows() -> Iterator[None]:
    """Raises ValueError if Neo4j rejects the rows themselves, so that they are not retried."""
    try:
        yield
    except exceptions.ClientError as error:
        if _code(error).startswith(REJECTION_CODES):
            raise ValueError(f"Neo4j rejects the rows ({_code(error)})") from error
        raise


def _code(error: exceptions.Neo4jError) -> str:
    return error.code or "an error without a code"
