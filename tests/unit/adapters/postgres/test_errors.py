from __future__ import annotations

import psycopg
import pytest
from psycopg import errors
from psycopg_pool import PoolTimeout, TooManyRequests

from serving.adapters.postgres.connection.errors import StatementRejectedError, store_errors
from serving.domain.errors import OverloadedError, StoreUnavailableError

SECRET = "Failing row contains (my secret)"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (errors.QueryCanceled(SECRET), TimeoutError),
        (TooManyRequests(SECRET), OverloadedError),
        (PoolTimeout(SECRET), StoreUnavailableError),
        (psycopg.OperationalError(SECRET), StoreUnavailableError),
        (psycopg.InterfaceError(SECRET), StoreUnavailableError),
        (errors.AdminShutdown(SECRET), StoreUnavailableError),
        (errors.ReadOnlySqlTransaction(SECRET), StoreUnavailableError),
        (errors.CheckViolation(SECRET), StatementRejectedError),
        (psycopg.DataError(SECRET), StatementRejectedError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_an_error_becomes_ours_without_its_text(
    raised: Exception, expected: type[Exception]
) -> None:
    with pytest.raises(expected) as caught, store_errors():
        raise raised

    assert SECRET not in str(caught.value)


def test_a_rejected_statement_does_not_show_the_row() -> None:
    with pytest.raises(StatementRejectedError) as caught, store_errors():
        raise errors.CheckViolation(SECRET)

    assert caught.value.__suppress_context__


def test_errors_that_are_not_psycopgs_pass() -> None:
    with pytest.raises(KeyError), store_errors():
        raise KeyError("a")
