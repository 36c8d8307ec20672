"""The command against a service that finds what was written, in the order of writing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.harness.results import read_records, table
from bench.quality.__main__ import main
from bench.quality.scoring.stored import read_rows
from tests.fakes.service import running
from tests.unit.bench.quality.fake_memory import LEGS, FakeMemory

TEXTS = ("The boiler is behind the stairs.", "Rent is due on Fridays.", "<script>alert(1)</script>")
QUESTIONS = ("Where is the boiler?", "When is rent due?", "Which <b>script</b> runs?")


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def memory() -> Iterator[FakeMemory]:
    memory = FakeMemory()
    with running(memory):
        yield memory


def written_set(folder: Path, questions: int) -> Path:
    """A set of three segments, to each of which there are as many questions."""
    folder.mkdir()
    corpus = ({"id": f"d{place}", "text": text} for place, text in enumerate(TEXTS))
    (folder / "corpus.jsonl").write_text(lines(*corpus))
    asked = range(questions)
    queries = ({"id": f"q{n}", "text": QUESTIONS[n % 3], "category": "plain"} for n in asked)
    (folder / "queries.jsonl").write_text(lines(*queries))
    (folder / "qrels.tsv").write_text("".join(f"q{n}\td{n % 3}\t1\n" for n in asked))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a newcomer writes: three lines of each kind."""
    return written_set(tmp_path / "house", 3)


@pytest.fixture
def gated(tmp_path: Path) -> Path:
    """Enough questions to say something of."""
    return written_set(tmp_path / "house", 9)


def run(memory: FakeMemory, *arguments: str | Path) -> Result:
    given = [*map(str, arguments), "--address", memory.address]
    return CliRunner().invoke(main, given, catch_exceptions=False)


def written(out: Path) -> Path:
    (folder,) = out.iterdir()
    return folder


def test_three_lines_of_each_kind_give_a_report(
    memory: FakeMemory, folder: Path, tmp_path: Path
) -> None:
    result = run(memory, folder, "--out", tmp_path / "out")

    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in written(tmp_path / "out").iterdir()) == [
        "queries.jsonl",
        "report.html",
        "results.jsonl",
        "summary.md",
    ]
    assert written(tmp_path / "out").name.startswith("quality-house-")
    records = read_records(written(tmp_path / "out"))
    assert [table(each, "parameters")["way"] for each in records][:2] == ["default", "dense"]
    mean = table(records[0], "measured", "mrr@10")["mean"]
    assert mean == pytest.approx((1 + 1 / 2 + 1 / 3) / 3, abs=1e-4)


def test_what_may_be_published_holds_no_text_and_the_page_is_kept_out_of_git(
    memory: FakeMemory, folder: Path, tmp_path: Path
) -> None:
    run(memory, folder, "--out", tmp_path / "out", "--without", "graph")

    for name in ("results.jsonl", "queries.jsonl", "summary.md"):
        published = (written(tmp_path / "out") / name).read_text()
        assert not [text for text in (*TEXTS, *QUESTIONS) if text in published], name
        assert str(tmp_path) not in published, name
    ignored = (Path(__file__).parents[4] / ".gitignore").read_text().splitlines()
    assert "/bench/results/" in ignored


def test_questions_with_misheard_names_are_asked_and_the_results_say_how(
    memory: FakeMemory, folder: Path, tmp_path: Path
) -> None:
    corpus = folder / "corpus.jsonl"
    named = {"id": "d9", "text": "The stairs creak.", "speaker": "Melanie"}
    corpus.write_text(corpus.read_text() + lines(named))
    (folder / "queries.jsonl").write_text(lines({"id": "q0", "text": "Where is Melanie?"}))
    (folder / "qrels.tsv").write_text("q0\td9\t1\n")
    names = ("--names", "misheard", "--seed", "3")

    result = run(memory, folder, "--out", tmp_path / "out", "--profile", "default", *names)

    assert result.exit_code == 0, result.output
    found = written(tmp_path / "out")
    assert found.name.startswith("quality-house-misheard-")
    assert "bench.quality house --names misheard --seed 3 " in (found / "summary.md").read_text()
    page = (found / "report.html").read_text()
    assert "Where is M" in page
    assert "Where is Melanie?" not in page


def test_the_page_shows_texts_and_runs_none_of_them(
    memory: FakeMemory, folder: Path, tmp_path: Path
) -> None:
    run(memory, folder, "--out", tmp_path / "out", "--without", "graph")

    page = (written(tmp_path / "out") / "report.html").read_text()
    assert "The boiler is behind the stairs." in page
    assert "Which &lt;b&gt;script&lt;/b&gt; runs?" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in page
    # Nothing is fetched: it can be sent to somebody, and read without a network.
    assert not [each for each in ("src=", "@import", "url(http", "<link") if each in page]
    assert page.count("<svg") == 3


def test_a_page_has_no_id_twice(memory: FakeMemory, folder: Path, tmp_path: Path) -> None:
    run(memory, folder, "--out", tmp_path / "out", "--without", "graph")

    page = (written(tmp_path / "out") / "report.html").read_text()
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids)), sorted(id_ for id_ in set(ids) if ids.count(id_) > 1)


def test_ways_are_asked_as_given_and_compared_with_the_baseline(
    memory: FakeMemory, folder: Path, tmp_path: Path
) -> None:
    result = run(
        memory, folder, "--out", tmp_path / "out", "--way", "words=default legs.dense.weight=0",
        "--profile", "default", "--without", "graph", "--baseline", "words",
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    records = read_records(written(tmp_path / "out"))
    assert {
        str(table(each, "parameters")["way"]): table(each, "parameters")["command"]
        for each in records
    } == {
        "words": "python -m bench.quality house --way 'words=default legs.dense.weight=0'",
        "default": "python -m bench.quality house --way default=default "
        "--way 'words=default legs.dense.weight=0' --baseline words",
        "words - graph": "python -m bench.quality house "
        "--way 'words - graph=default legs.dense.weight=0 legs.graph.weight=0' "
        "--way 'words=default legs.dense.weight=0' --baseline words",
    }


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--way", "words"], "is not 'NAME=PROFILE"),
        (["--profile", "none"], "no profile is called 'none'; known: default"),
        (["--without", "none"], "'default' carries no leg 'none'"),
        (["--baseline", "none"], "no way is called 'none'"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(
    memory: FakeMemory, folder: Path, tmp_path: Path, arguments: Sequence[str], why: str
) -> None:
    result = run(memory, folder, "--out", tmp_path / "out", *arguments)

    assert result.exit_code != 0
    assert why in result.output


def test_a_line_that_cannot_be_read_stops_the_run_unless_told_otherwise(
    memory: FakeMemory, folder: Path, tmp_path: Path
) -> None:
    with (folder / "qrels.tsv").open("a") as judgments:
        judgments.write("q0 d0 1\n")

    refused = run(memory, folder, "--out", tmp_path / "out", "--profile", "default")
    skipped = run(
        memory, folder, "--out", tmp_path / "out", "--profile", "default", "--skip-unreadable"
    )

    assert refused.exit_code == 1
    assert "qrels.tsv:4: is not a question, a segment and a grade" in refused.output
    assert skipped.exit_code == 0


def test_a_set_is_stored_anew_only_if_it_changed(
    memory: FakeMemory, folder: Path, tmp_path: Path
) -> None:
    run(memory, folder, "--out", tmp_path / "a", "--profile", "default")
    run(memory, folder, "--out", tmp_path / "b", "--profile", "default")
    with (folder / "corpus.jsonl").open("a") as corpus:
        corpus.write(lines({"id": "d3", "text": "Another."}))
    run(memory, folder, "--out", tmp_path / "c", "--profile", "default")

    first, again, changed = (tenant for tenant, _ in memory.written)
    assert first == again != changed


# ---------------------------------------------------------------- the gate


def test_stored_scores_pass_their_own_gate(memory: FakeMemory, gated: Path, tmp_path: Path) -> None:
    stored = tmp_path / "stored.jsonl"
    run(memory, gated, "--out", tmp_path / "a", "--store", stored)

    result = run(memory, gated, "--out", tmp_path / "b", "--gate", stored)

    assert result.exit_code == 0, result.output
    assert {row.way for row in read_rows(stored)} == {"default", *LEGS}
    assert "0 of 30 figures in 5 ways fell" in result.output


def test_a_loss_ends_with_1_and_is_told(memory: FakeMemory, gated: Path, tmp_path: Path) -> None:
    stored = tmp_path / "stored.jsonl"
    run(memory, gated, "--out", tmp_path / "a", "--store", stored)
    memory.forgets = True

    result = run(memory, gated, "--out", tmp_path / "b", "--gate", stored)

    assert result.exit_code == 1
    assert "fell significantly" in result.output
    assert "house: default" in result.output


def test_other_questions_than_the_stored_are_an_error(
    memory: FakeMemory, gated: Path, tmp_path: Path
) -> None:
    stored = tmp_path / "stored.jsonl"
    run(memory, gated, "--out", tmp_path / "a", "--store", stored, "--profile", "default")

    result = run(
        memory,
        gated,
        "--out",
        tmp_path / "b",
        "--gate",
        stored,
        "--limit-queries",
        "8",
        "--profile",
        "default",
    )

    assert result.exit_code == 1
    assert "other questions are stored than were asked: 9 and 8" in result.output


def test_faulty_answers_are_neither_stored_nor_passed(
    memory: FakeMemory, gated: Path, tmp_path: Path
) -> None:
    stored = tmp_path / "stored.jsonl"
    queries = (gated / "queries.jsonl").read_text()
    run(memory, gated, "--out", tmp_path / "a", "--store", stored, "--profile", "default")
    (gated / "queries.jsonl").write_text(queries.replace("When is", "Fail: when is"))

    compared = run(memory, gated, "--out", tmp_path / "b", "--gate", stored, "--profile", "default")
    again = run(memory, gated, "--out", tmp_path / "c", "--store", tmp_path / "again.jsonl")

    assert compared.exit_code == 1
    assert "3 answers asked are not whole, such as that to 'q" in compared.output
    assert "(failed: INTERNAL): this says nothing of the ranking" in compared.output
    assert again.exit_code == 1
    assert not (tmp_path / "again.jsonl").exists()
    assert "3 of 9 failed, and score 0" in (written(tmp_path / "b") / "summary.md").read_text()
