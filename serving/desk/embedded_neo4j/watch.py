"""Notices a Neo4j that runs and answers nothing but errors, as it does after a full disk."""

from __future__ import annotations

import time
from collections.abc import Callable

from neo4j import GraphDatabase
from neo4j.exceptions import DatabaseError, DriverError, Neo4jError

EVERY_S = 10.0
ANSWERS_WITHIN_S = 5.0
MIN_ERRORS = 3
MAX_ERRORS = 48
"""Eight minutes: a start takes seconds, and does not help while the disk is full."""


class ErrorWatch:
    """Asks a server in intervals, and counts its errors in a row, as `error_of` returns them."""

    def __init__(
        self,
        error_of: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._error_of = error_of or error_of_transaction
        self._clock = clock
        self._ask_at = 0.0
        self._errors = 0
        self._most = MIN_ERRORS

    def lasting_error(self, uri: str) -> str:
        """The error for which the server should be started again; empty without one.

        Each time that this did not help it takes twice as many errors.
        """
        if self._clock() < self._ask_at:
            return ""
        self._ask_at = self._clock() + EVERY_S
        error = self._error_of(uri)
        if not error:
            self._errors, self._most = 0, MIN_ERRORS
            return ""
        self._errors += 1
        if self._errors < self._most:
            return ""
        self._errors, self._most = 0, min(2 * self._most, MAX_ERRORS)
        return error


def error_of_transaction(uri: str) -> str:
    """The code of the failure that Neo4j answers to a write, which is not kept.

    Empty if it answers, and also if it does not in time: a busy machine is no reason to start it
    again.
    """
    try:
        with (
            GraphDatabase.driver(uri, connection_timeout=ANSWERS_WITHIN_S) as driver,
            driver.session() as session,
            session.begin_transaction(timeout=ANSWERS_WITHIN_S) as transaction,
        ):
            transaction.run("CREATE ()").consume()
            transaction.rollback()
    except DatabaseError as error:
        return error.code or "an error without a code"
    except (Neo4jError, DriverError):
        return ""
    return ""
