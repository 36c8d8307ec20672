"""Connection strings that libpq reads, and ones that it does not."""

from __future__ import annotations

import pytest

from serving.adapters.postgres.dsn import parses


@pytest.mark.parametrize("dsn", ["host=/run user=me password='two words'", "postgresql://me@host"])
def test_what_libpq_reads_parses(dsn: str) -> None:
    assert parses(dsn)


@pytest.mark.parametrize("dsn", ["host=/run password=two words", "postgresql://me@[host"])
def test_what_it_does_not_read_does_not(dsn: str) -> None:
    assert not parses(dsn)
