from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from serving.__main__ import main


def test_dry_run_without_a_desk_makes_no_database(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    variables = {
        "TRIVIUM_DATA_DIR": str(folder),
        "TRIVIUM_EXTRACTION__API__URL": "http://127.0.0.1:1",
        "TRIVIUM_EXTRACTION__API__MODEL": "some-model",
    }
    done = CliRunner().invoke(main, ["extract", "--dry-run"], env=variables)

    assert done.exit_code == 0, done.output
    assert "nothing is stored" in done.output
    assert not (folder / "postgres").exists()
