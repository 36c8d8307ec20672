"""The file of exported erasures."""

from __future__ import annotations

import io
import stat
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from serving.adapters.postgres.writes.tombstones import Tombstones
from serving.commands.erasures import erasures, lines_of, read_exported
from serving.config.settings import Settings

TOMBSTONES = Tombstones(
    b"\x00key",
    [(b"\x01\xff", datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)), (b"", datetime.max)],
)


def test_a_file_is_read_as_it_was_written() -> None:
    assert read_exported(io.StringIO("".join(lines_of(TOMBSTONES)))) == TOMBSTONES


@pytest.fixture
def _stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.commands.erasures.in_database", lambda *_: TOMBSTONES)


@pytest.mark.usefixtures("_stored")
def test_an_exported_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "erasures.jsonl"

    result = CliRunner().invoke(erasures, ["export", str(file)], obj=Settings())

    assert (result.exit_code, result.output) == (0, "2 erasures\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_exported(io.StringIO(file.read_text())) == TOMBSTONES


@pytest.mark.usefixtures("_stored")
def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    result = CliRunner().invoke(erasures, ["export", str(tmp_path / "no" / "f")], obj=Settings())

    assert result.exit_code == 1
    assert "cannot be written (No such file or directory)" in result.output


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key": 1}', '{"key": "00"}\n{}', "no json"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other"
    file.write_text(text)

    with file.open() as lines, pytest.raises(click.ClickException, match="not a file of `erasures"):
        read_exported(lines)
