"""The figures of the pages, and the baselines they come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.docs.__main__ import main
from bench.docs.markers import MarkerError, rewritten
from bench.docs.tables import TABLES, render
from bench.harness.results import Json, append_record, read_records
from bench.harness.results import Result as Measured
from bench.reports.baselines import promote

FIGURE = (
    "A call takes <!-- figure speed/load load[callers=1] latency.p50_ms .1f -->{}<!-- end --> ms."
)


def run(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--root", str(root), *arguments])


def page(root: Path, text: str) -> Path:
    path = root / "README.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_figure_is_written_from_its_baseline(tmp_path: Path) -> None:
    path = page(tmp_path, FIGURE.format("?"))
    expected = render("figure", ["speed/load", "load[callers=1]", "latency.p50_ms", ".1f"])

    assert run(tmp_path).exit_code == 0
    assert path.read_text() == FIGURE.format(expected)
    assert run(tmp_path, "--check").exit_code == 0


def test_a_check_fails_on_a_figure_that_differs_and_changes_nothing(tmp_path: Path) -> None:
    path = page(tmp_path, FIGURE.format("0.1"))

    result = run(tmp_path, "--check")

    assert result.exit_code == 1
    assert "make docs-figures" in result.output
    assert path.read_text() == FIGURE.format("0.1")


def test_a_check_fails_on_a_table_that_differs(tmp_path: Path) -> None:
    page(tmp_path, "<!-- table goals -->\n| a |\n<!-- end -->\n")

    assert run(tmp_path, "--check").exit_code == 1


def test_a_page_may_not_cite_a_baseline_that_does_not_exist(tmp_path: Path) -> None:
    page(tmp_path, "See `bench/baselines/speed/removed`.")

    result = run(tmp_path, "--check")

    assert result.exit_code == 1
    assert "bench/baselines/speed/removed does not exist" in result.output


@pytest.mark.parametrize(
    "text",
    [
        "<!-- table goals -->\nwithout an end",
        "x <!-- table goals --><!-- source speed/load --><!-- end -->",
        "<!-- figure speed/load load latency.p50_ms .1f -->0<!-- end --> begins a line",
        "x <!-- figure speed/load load[callers=77] latency.p50_ms .1f -->0<!-- end -->",
        "x <!-- figure speed/load load latency.p77_ms .1f -->0<!-- end -->",
        "x <!-- figure speed/none load latency.p50_ms .1f -->0<!-- end -->",
        "x <!-- figure speed/load load -->0<!-- end -->",
        "<!-- table nonsense -->\n<!-- end -->",
    ],
)
def test_a_malformed_marker_is_rejected(text: str) -> None:
    with pytest.raises(MarkerError):
        rewritten(text, render)


def test_other_comments_are_left_alone() -> None:
    assert rewritten("<!-- a note -->\ntext\n", render) == "<!-- a note -->\ntext\n"


def run_folder(folder: Path, *ways: str) -> Path:
    folder.mkdir()
    for way in ways:
        measured: dict[str, Json] = {"recall@10": {"mean": 0.5}, "by_category": {"a": 1}}
        result = Measured(scenario="quality", parameters={"way": way}, n=1, measured=measured)
        append_record(folder, result.as_record({}))
    (folder / "overview.png").write_bytes(b"png")
    (folder / "report.html").write_text("a text of the set")
    return folder


def ways_of(folder: Path) -> Sequence[object]:
    return [record["parameters"] for record in read_records(folder)]


def test_a_baseline_is_replaced_by_runs_without_texts_and_breakdowns(tmp_path: Path) -> None:
    target = tmp_path / "baselines" / "quality"
    promote([run_folder(tmp_path / "old", "old")], target)
    runs = [run_folder(tmp_path / "a", "first"), run_folder(tmp_path / "b", "second")]

    promote(runs, target)

    assert ways_of(target) == [{"way": "first"}, {"way": "second"}]
    assert [record["measured"] for record in read_records(target)] == [
        {"recall@10": {"mean": 0.5}}
    ] * 2
    assert sorted(path.name for path in target.iterdir()) == ["overview.png", "results.jsonl"]


def test_a_baseline_stays_if_a_run_has_no_results(tmp_path: Path) -> None:
    target = tmp_path / "baseline"
    promote([run_folder(tmp_path / "old", "old")], target)
    (tmp_path / "empty").mkdir()

    with pytest.raises(FileNotFoundError):
        promote([tmp_path / "empty"], target)

    assert ways_of(target) == [{"way": "old"}]


def test_every_table_is_shown_by_a_page() -> None:
    root = Path(__file__).parents[4]
    shown = "".join(path.read_text() for path in (root / "docs").rglob("*.md"))
    shown += (root / "README.md").read_text()

    assert [name for name in TABLES if f"<!-- table {name} " not in shown] == []
