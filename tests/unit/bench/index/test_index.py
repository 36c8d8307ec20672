"""The measurement of the vector index, over few rows."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from bench.harness.results import number, read_records, table
from bench.index.searches import main


def test_few_rows_are_measured_in_every_search(tmp_path: Path) -> None:
    options = ["--rows", "600", "--dimension", "16", "--probes", "4", "--quiet-s", "0.05"]

    result = CliRunner().invoke(main, [*options, "--out", str(tmp_path)], catch_exceptions=False)

    assert result.exit_code == 0, result.output
    *searches, rebuilt = read_records(tmp_path)
    recalls = {
        table(each, "parameters")["way"]: number(each, "measured", "recall") or 0
        for each in searches
    }
    assert set(recalls) == {"exact", "served", "4 lists"}
    assert recalls["exact"] > 0.99
    assert recalls["served"] > 0.9
    assert rebuilt["scenario"] == "index while it is rebuilt"
    assert number(rebuilt, "measured", "p99_ratio")
