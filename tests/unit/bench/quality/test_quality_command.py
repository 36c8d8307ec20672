"""The command against a service that finds what was written, in the order of writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.harness.results import number, read_records, table
from bench.quality.__main__ import main
from bench.quality.scoring.gate import read_rows
from tests.fakes.service import running
from tests.unit.bench.fake_memory import LEGS, FakeMemory, written_set

TEXTS = ("The boiler is behind the stairs.", "Rent is due on Fridays.", "Melanie has the drill.")
QUESTIONS = ("Where is the boiler?", "When is rent due?", "Has Melanie the drill?")


@pytest.fixture
def memory() -> Iterator[FakeMemory]:
    memory = FakeMemory()
    with running(memory):
        yield memory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of three segments and twenty questions, the first of which an outdated one answers."""
    folder = written_set(
        tmp_path / "home",
        qrels="".join(f"q{n}\td{n % 3}\t1\n" for n in range(20)),
        corpus=[{"id": f"d{n}", "text": t, "speaker": "Melanie"} for n, t in enumerate(TEXTS)],
        queries=[{"id": f"q{n}", "text": QUESTIONS[n % 3], "category": "plain"} for n in range(20)],
    )
    (folder / "outdated.tsv").write_text("q0\td1\nq1\td0\n")
    return folder


def run(memory: FakeMemory, *arguments: str | Path) -> Result:
    given = [*map(str, arguments), "--address", memory.address]
    return CliRunner().invoke(main, given, catch_exceptions=False)


def written(out: Path) -> Path:
    (folder,) = out.iterdir()
    return folder


def test_set_is_measured_by_default(memory: FakeMemory, folder: Path, tmp_path: Path) -> None:
    result = run(memory, folder, "--out", tmp_path / "out")

    assert result.exit_code == 0, result.output
    results = written(tmp_path / "out")
    assert sorted(path.name for path in results.iterdir()) == [
        "means.png",
        "queries.jsonl",
        "results.jsonl",
        "summary.md",
    ]
    records = read_records(results)
    assert [table(each, "parameters")["way"] for each in records][:2] == ["default", "dense"]
    mean = (7 + 7 / 2 + 6 / 3) / 20
    assert number(records[0], "measured", "mrr@10", "mean") == pytest.approx(mean, abs=1e-4)
    assert number(records[0], "measured", "current-first@10", "mean") == 0.5
    assert "| run | plain (20) |" in (results / "summary.md").read_text()


def test_results_hold_no_text(memory: FakeMemory, folder: Path, tmp_path: Path) -> None:
    run(memory, folder, "--out", tmp_path / "out", "--without", "graph")

    for name in ("results.jsonl", "queries.jsonl", "summary.md"):
        published = (written(tmp_path / "out") / name).read_text()
        assert not [text for text in (*TEXTS, *QUESTIONS) if text in published], name
        assert str(tmp_path) not in published, name


def test_configs_are_compared_with_the_baseline(
    memory: FakeMemory, folder: Path, tmp_path: Path
) -> None:
    result = run(
        memory, folder, "--out", tmp_path / "out", "--config", "words=default legs.dense.weight=0",
        "--profile", "default", "--without", "graph", "--baseline", "words",
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    records = read_records(written(tmp_path / "out"))
    assert [table(each, "parameters")["command"] for each in records] == [
        "python -m bench.quality home --config 'words=default legs.dense.weight=0'",
        "python -m bench.quality home --config default=default "
        "--config 'words=default legs.dense.weight=0' --baseline words",
        "python -m bench.quality home "
        "--config 'words - graph=default legs.dense.weight=0 legs.graph.weight=0' "
        "--config 'words=default legs.dense.weight=0' --baseline words",
    ]
    assert number(records[1], "measured", "difference", "mrr@10", "mean") == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--config", "words"], "is not 'NAME=PROFILE"),
        (["--profile", "none"], "no profile is called 'none'; known: default"),
        (["--baseline", "none"], "no configuration is called 'none'"),
    ],
)
def test_impossible_run_is_refused(
    memory: FakeMemory, folder: Path, tmp_path: Path, arguments: Sequence[str], why: str
) -> None:
    result = run(memory, folder, "--out", tmp_path / "out", *arguments)

    assert result.exit_code != 0
    assert why in result.output


# ---------------------------------------------------------------- the gate


@pytest.fixture
def expected(memory: FakeMemory, folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "expected.jsonl"
    run(memory, folder, "--out", tmp_path / "stored", "--store", path)
    return path


def test_stored_scores_pass_their_gate(
    memory: FakeMemory, folder: Path, expected: Path, tmp_path: Path
) -> None:
    result = run(memory, folder, "--out", tmp_path / "out", "--gate", expected)

    assert result.exit_code == 0, result.output
    assert {row.way for row in read_rows(expected)} == {"default", *LEGS}
    assert "0 of 35 scores of 5 runs fell" in result.output


def test_loss_fails_the_gate(
    memory: FakeMemory, folder: Path, expected: Path, tmp_path: Path
) -> None:
    memory.forgets = True

    result = run(memory, folder, "--out", tmp_path / "out", "--gate", expected)

    assert result.exit_code == 1
    assert "fell significantly" in result.output
    assert "home: default" in result.output


def test_faulty_answers_are_neither_stored_nor_passed(
    memory: FakeMemory, folder: Path, expected: Path, tmp_path: Path
) -> None:
    queries = (folder / "queries.jsonl").read_text()
    (folder / "queries.jsonl").write_text(queries.replace("When is", "Fail: when is"))

    compared = run(memory, folder, "--out", tmp_path / "out", "--gate", expected)
    again = run(memory, folder, "--out", tmp_path / "again", "--store", tmp_path / "again.jsonl")

    assert compared.exit_code == 1
    assert "7 measured answers are not whole, such as that to 'q" in compared.output
    assert "(failed: INTERNAL): this says nothing of the ranking" in compared.output
    assert again.exit_code == 1
    assert not (tmp_path / "again.jsonl").exists()
    assert "7 of 20 failed, and score 0" in (written(tmp_path / "out") / "summary.md").read_text()
