from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.quality.scoring.gate import compare, verdict
from bench.quality.scoring.stored import Row, StoredError, read_rows, write_rows

METRIC = "recall@10"


def rows(values: Iterable[float], way: str = "default", scope: str = "c") -> list[Row]:
    return [
        Row(set="s", way=way, query=f"q{place}", scope=scope, scores={METRIC: value}, ranked=("a",))
        for place, value in enumerate(values)
    ]


STORED = rows([1.0] * 40 + [0.0] * 10)


def losing(count: int) -> list[Row]:
    return rows([0.0] * count + [1.0] * (40 - count) + [0.0] * 10)


def test_a_run_that_scores_the_same_passes() -> None:
    (compared,) = compare(STORED, STORED)

    assert not compared.fell
    assert compared.difference.mean == 0
    assert "0 of 1 figures in 1 ways fell" in verdict([compared])


@pytest.mark.parametrize(("count", "fell"), [(1, False), (3, False), (4, True), (10, True)])
def test_four_lost_questions_of_fifty_are_a_loss_and_three_may_be_chance(
    count: int, fell: bool
) -> None:
    (compared,) = compare(STORED, losing(count))

    assert compared.fell is fell
    assert compared.stored == 0.8
    assert compared.now == pytest.approx(0.8 - count / 50)


def test_a_loss_is_told_by_how_much_and_how_surely() -> None:
    text = verdict(compare(STORED, losing(10)))

    assert "1 of 1 figures in 1 ways fell significantly" in text
    assert "| s: default | recall@10 | 50 | 0.800 | 0.600 | -0.200 [-0.3" in text


def test_losses_that_gains_make_up_for_are_none() -> None:
    now = rows([0.0] * 5 + [1.0] * 35 + [1.0] * 5 + [0.0] * 5)

    assert not any(each.fell for each in compare(STORED, now))


def test_what_rose_is_told_so_that_it_is_stored() -> None:
    assert "These rose significantly" in verdict(compare(STORED, rows([1.0] * 50)))


def test_a_loss_in_one_conversation_of_two_is_not_significant() -> None:
    def two(values: list[float]) -> list[Row]:
        return [replace(row, scope=str(place % 2)) for place, row in enumerate(rows(values))]

    (compared,) = compare(two([1.0] * 40), two([0.0, 1.0] * 20))

    assert not compared.fell


def test_ways_that_are_not_stored_are_left_alone() -> None:
    assert len(compare(STORED, [*STORED, *rows([0.0], way="new")])) == 1


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (rows([1.0] * 50, way="other"), "set 's', way 'default': is stored, but was not asked"),
        (STORED[:-1], "other questions are stored than were asked: 50 and 49, .* 'q49'"),
        ([*STORED, *rows([1.0] * 51)[50:]], "50 and 51, not in both is 'q50'"),
        (
            [replace(STORED[0], fault="failed: UNAVAILABLE"), *STORED[1:]],
            r"1 answers asked are not whole, such as that to 'q0' \(failed: UNAVAILABLE\)",
        ),
        ([replace(STORED[0], scores={}), *STORED[1:]], "'q0' has no recall@10"),
    ],
)
def test_what_cannot_be_compared_is_an_error_and_no_pass(now: list[Row], why: str) -> None:
    with pytest.raises(StoredError, match=why):
        compare(STORED, now)


def test_too_few_questions_are_no_pass() -> None:
    with pytest.raises(StoredError, match="nothing can be said of 5 questions"):
        compare(rows([1.0] * 5), rows([1.0] * 5))


def test_rows_read_back_as_they_were_written(tmp_path: Path) -> None:
    write_rows(tmp_path / "deep/rows.jsonl", reversed(STORED))

    read = read_rows(tmp_path / "deep/rows.jsonl")

    assert sorted(row.query for row in read) == sorted(row.query for row in STORED)
    assert compare(STORED, read)[0].difference.mean == 0


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, STORED[:1])
    with path.open("a") as file:
        file.write('{"set": "s"}\n')

    with pytest.raises(StoredError, match=r"rows.jsonl:2: is no stored score"):
        read_rows(path)


def test_a_file_without_rows_is_no_pass(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")

    with pytest.raises(StoredError, match="holds no scores"):
        read_rows(tmp_path / "none.jsonl")
