"""The file of exported erasures."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest

from serving.adapters.postgres.writes.tombstones import Tombstones
from serving.local.erasures import lines_of, read_lines

TOMBSTONES = Tombstones(
    b"\x00key",
    [(b"\x01\xff", datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)), (b"", datetime.max)],
)


def test_a_file_is_read_as_it_was_written() -> None:
    assert read_lines(io.StringIO("".join(lines_of(TOMBSTONES)))) == TOMBSTONES


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key": 1}', '{"key": "00"}\n{}', "no json"])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        read_lines(io.StringIO(text))
