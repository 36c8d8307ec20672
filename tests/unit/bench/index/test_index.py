"""The measurement of the vector index, over few rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.harness.results import number, read_records, table
from bench.index import searches


def test_few_rows_are_measured_in_every_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "QUIET_S", 0.05)
    options = ["--rows", "600", "--dimension", "16", "--probes", "4", "--out", str(tmp_path)]

    result = CliRunner().invoke(searches.main, options, catch_exceptions=False)

    assert result.exit_code == 0, result.output
    *found, rebuilt = read_records(tmp_path)
    recalls = {
        table(each, "parameters")["way"]: number(each, "measured", "recall") or 0 for each in found
    }
    assert set(recalls) == {"exact", "served", "4 lists"}
    assert recalls["exact"] > 0.99
    assert recalls["served"] > 0.9
    assert rebuilt["scenario"] == "index while it is rebuilt"
    assert number(rebuilt, "measured", "p99_ratio")
