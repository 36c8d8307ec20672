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


@pytest.mark.parametrize(("count", "fell"), [(1, False), (3, False), (4, True), (10, True)])
def test_four_lost_questions_of_fifty_fell(count: int, fell: bool) -> None:
    (compared,) = compare(STORED, losing(count))

    assert compared.fell is fell
    assert compared.stored == 0.8
    assert compared.now == pytest.approx(0.8 - count / 50)


def test_verdict_has_the_difference_and_its_interval() -> None:
    text = verdict(compare(STORED, losing(10)))

    assert "1 of 1 scores of 1 runs fell significantly" in text
    assert "| s: default | recall@10 | 50 | 0.800 | 0.600 | -0.200 [-0.3" in text


def test_balanced_losses_and_gains_pass() -> None:
    now = rows([0.0] * 5 + [1.0] * 35 + [1.0] * 5 + [0.0] * 5)

    assert not any(each.fell for each in compare(STORED, now))


def test_loss_in_one_conversation_of_two_passes() -> None:
    def two(values: list[float]) -> list[Row]:
        return [replace(row, scope=str(place % 2)) for place, row in enumerate(rows(values))]

    (compared,) = compare(two([1.0] * 40), two([0.0, 1.0] * 20))

    assert not compared.fell


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (
            rows([1.0] * 50, way="other"),
            "set 's', configuration 'default': is stored, but was not measured",
        ),
        (STORED[:-1], "other questions are stored than were measured: 50 and 49, .* 'q49'"),
        ([*STORED, *rows([1.0] * 51)[50:]], "50 and 51, not in both is 'q50'"),
        (
            [replace(STORED[0], fault="failed: UNAVAILABLE"), *STORED[1:]],
            r"1 measured answers are not whole, such as that to 'q0' \(failed: UNAVAILABLE\)",
        ),
        ([replace(STORED[0], scores={}), *STORED[1:]], "'q0' has no recall@10"),
    ],
)
def test_incomparable_run_is_an_error(now: list[Row], why: str) -> None:
    with pytest.raises(StoredError, match=why):
        compare(STORED, now)


def test_too_few_questions_are_an_error() -> None:
    with pytest.raises(StoredError, match="nothing can be said of 5 questions"):
        compare(rows([1.0] * 5), rows([1.0] * 5))


def test_malformed_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, STORED[:1])
    with path.open("a") as file:
        file.write('{"set": "s"}\n')

    with pytest.raises(StoredError, match=r"rows.jsonl:2: is no stored score"):
        read_rows(path)


def test_metric_of_some_questions_is_compared_over_these() -> None:
    def with_metric(value: float) -> list[Row]:
        extra = {"current-first@10": value}
        return [replace(row, scores={**row.scores, **extra}) for row in STORED[:10]] + STORED[10:]

    compared = {each.metric: each for each in compare(with_metric(1.0), with_metric(0.0))}

    assert compared["current-first@10"].n == 10
    assert compared["current-first@10"].fell
    assert not compared[METRIC].fell
