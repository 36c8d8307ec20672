from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.speed.rerank import (
    HEAD,
    ROUNDS,
    TRIALS,
    Trial,
    answer_is_first,
    as_lines,
    pairs_per_second,
    sigmoid,
)
from tests.fakes.reranker import FakeCrossEncoder

TRIAL = Trial("who sailed?", ("they sailed", "a sail", "bread"))


def test_the_answer_is_first_only_if_its_logit_is_above_all_others() -> None:
    assert answer_is_first([2.0, -3.0, 1.0])
    assert not answer_is_first([2.0, -3.0, 2.0])
    assert not answer_is_first([1.0, -3.0, 2.0])


def test_each_passage_is_told_with_its_logit_and_its_probability() -> None:
    assert as_lines(TRIAL, [2.0, 0.0, -11.5]).splitlines() == [
        "who sailed? (as expected)",
        "    2.000  0.8808  they sailed",
        "    0.000  0.5000  a sail",
        "  -11.500  0.0000  bread",
    ]


def test_another_order_is_told() -> None:
    assert as_lines(TRIAL, [2.0, 3.0, -1.0]).splitlines()[0] == "who sailed? (NOT as expected)"


def test_probabilities_are_those_of_the_logistic_function() -> None:
    assert [sigmoid(logit) for logit in (-1e4, -1.0, 0.0, 1.0, 1e4)] == pytest.approx(
        [0.0, 0.2689414, 0.5, 0.7310586, 1.0]
    )


def test_the_speed_is_that_of_the_median_round_after_a_warm_up() -> None:
    encoder = FakeCrossEncoder()
    ticks: Iterator[float] = iter([0, 100, 0, 2, 0, 5, 0, 50])

    assert pairs_per_second(encoder, clock=lambda: next(ticks)) == HEAD / 5
    assert [len(texts) for texts in encoder.batches] == [HEAD] * (1 + ROUNDS)


def test_every_trial_has_passages_to_order() -> None:
    assert all(len(set(trial.passages)) == 3 for trial in TRIALS)
