"""The commands of operators: the file of exported erasures, and the lines of `verify`."""

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
from serving.commands.verify import lines_of as lines_of_findings
from serving.config.settings import Settings
from serving.domain.items.records import TenantName, fact_id, segment_id
from serving.ports.verification import Difference, Finding
from tests.support.builders import TENANT

TOMBSTONES = Tombstones(
    b"\x00key",
    [(b"\x01\xff", datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)), (b"", datetime.max)],
)


# ---------------------------------------------------------------- erasures


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


# ---------------------------------------------------------------- verify


def test_difference_names_ten_items_and_counts_all() -> None:
    many = [Finding("graph", Difference.STALE, TENANT, segment_id(f"s{n}")) for n in range(11)]

    [line] = lines_of_findings(many)

    assert line.startswith(f"tenant {TENANT!r}, graph: stale: 11 (segment s0, ")
    assert line.endswith("segment s9, ...)")


@pytest.mark.parametrize("hostile", ["a\x1b[2J", "a\nno differences", "a\u202eb", "a\x9b2J"])
def test_no_id_of_a_caller_steers_the_terminal(hostile: str) -> None:
    subjects = (segment_id(hostile), f"entity {hostile}")
    lines = lines_of_findings(
        [Finding("graph", Difference.STALE, TENANT, each) for each in subjects]
    )

    assert [line for line in lines if not line.isprintable()] == []


def test_tenants_stores_and_differences_have_lines() -> None:
    missing = Finding("embeddings", Difference.MISSING, TENANT, fact_id("f"))
    left_over = Finding("embeddings", Difference.LEFT_OVER, TenantName(""), "17")

    assert lines_of_findings([missing, left_over]) == [
        f"tenant {TENANT!r}, embeddings: missing: 1 (fact f)",
        "no tenant, embeddings: left over: 1 (17)",
    ]
