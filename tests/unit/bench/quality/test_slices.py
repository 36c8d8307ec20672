from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.harness.collection import read_collection
from bench.quality.slices.__main__ import SliceError, cut, main, write

ROOT = Path(__file__).parents[4]
SLICES = ROOT / "bench/quality/slices"
LARGEST_BYTES = 2 << 20


def lines(*records: object) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty segments and five questions, each with two answers but the last."""
    folder = tmp_path / "set"
    folder.mkdir()
    texts = [f"Number {place}.\u2028It goes on." for place in range(20)]
    (folder / "corpus.jsonl").write_text(
        lines(*({"id": f"d{place}", "text": text} for place, text in enumerate(texts)))
    )
    (folder / "queries.jsonl").write_text(
        lines(*({"id": f"q{place}", "text": "?", "level": "hard"} for place in range(5)))
    )
    (folder / "qrels.tsv").write_text(
        "".join(f"q{place}\td{2 * place}\t1\nq{place}\td{2 * place + 1}\t2\n" for place in range(4))
        + "q0\td19\t0\n"
    )
    facts = ({"subject": "a", "relation": "b", "object": f"{n}", "doc_id": f"d{n}"}
             for n in range(20))  # fmt: skip
    (folder / "triples.jsonl").write_text(lines(*facts))
    return folder


def test_a_slice_holds_all_answers_to_its_questions_and_as_many_segments_as_wanted(
    folder: Path, tmp_path: Path
) -> None:
    write(cut(folder, queries=3, passages=10, seed=1), tmp_path / "slice")

    slice_ = read_collection(tmp_path / "slice")
    whole = {query.id: query for query in read_collection(folder).judged}
    assert slice_.problems == []
    assert (len(slice_.judged), slice_.segment_count, slice_.fact_count) == (3, 10, 10)
    assert all(query.relevant == whole[query.id].relevant for query in slice_.judged)


def test_lines_are_kept_as_they_are_and_in_their_order(folder: Path) -> None:
    files = cut(folder, queries=2, passages=6, seed=1)

    for name, kept in files.items():
        whole = (folder / name).read_text().split("\n")
        assert [line for line in whole if line in kept] == list(kept), name


def test_the_same_seed_cuts_the_same_slice_and_another_seed_another(folder: Path) -> None:
    one, again, other = (cut(folder, queries=2, passages=8, seed=seed) for seed in (1, 1, 2))

    assert one == again
    assert one != other


@pytest.mark.parametrize(
    ("queries", "passages", "why"),
    [
        (5, 20, "the set has 4 judged questions, fewer than 5"),
        (4, 7, "4 questions have 8 answers, more than 7"),
        (1, 30, "fewer than 28"),
    ],
)
def test_a_slice_that_cannot_be_cut_is_refused(
    folder: Path, queries: int, passages: int, why: str
) -> None:
    with pytest.raises(SliceError, match=why):
        cut(folder, queries=queries, passages=passages, seed=1)


def test_the_command_says_what_it_wrote(folder: Path, tmp_path: Path) -> None:
    arguments = [str(folder), str(tmp_path / "out"), "--queries", "1", "--passages", "4"]

    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 0, result.output
    assert "4 lines of corpus.jsonl, 1 lines of queries.jsonl, 2 lines of qrels.tsv" in (
        result.output
    )
    assert "has 4 judged questions" in CliRunner().invoke(
        main, [*arguments[:2], "--queries", "9", "--passages", "4"]
    ).output  # fmt: skip


# ---------------------------------------------------------------- the slices that ship


@pytest.mark.parametrize(
    ("name", "questions", "segments"),
    [("musique", 52, 350), ("2wiki", 46, 800), ("sample", 40, 163)],
)
def test_a_shipped_slice_is_whole(name: str, questions: int, segments: int) -> None:
    slice_ = read_collection(SLICES / name)

    assert slice_.problems == []
    assert len(slice_.judged) == len(slice_.queries) == questions
    assert (slice_.segment_count, len(slice_.memories)) == (segments, 1)
    assert slice_.fact_count > 0


def test_no_answer_to_a_question_of_the_sample_was_said_after_it() -> None:
    slice_ = read_collection(SLICES / "sample")
    said = {each.id: each.event_time for each in slice_.memories["sample"].segments}

    for query in slice_.judged:
        for id_ in query.relevant:
            moment = said[id_]
            assert moment is not None
            assert query.as_of is not None
            assert moment < query.as_of, (query.id, id_)


def test_the_slices_are_small_and_say_where_they_come_from() -> None:
    files = [path for path in SLICES.rglob("*") if path.is_file() and not path.is_symlink()]
    notice = (SLICES / "NOTICE").read_text()

    assert sum(path.stat().st_size for path in files) <= LARGEST_BYTES
    for owed in ("MuSiQue", "Trivedi", "CC BY 4.0", "2WikiMultihopQA", "Apache", "HippoRAG", "MIT"):
        assert owed in notice
