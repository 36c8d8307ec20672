"""Batches of question-text pairs."""

from __future__ import annotations

from serving.gpu.rerankers.sequence_classifier import padded
from serving.ports.reranking import Pair


def test_padding_is_at_the_right_and_masked() -> None:
    inputs = padded([Pair([5, 6]), Pair([7])], padding=1, with_types=False)

    assert {name: rows.tolist() for name, rows in inputs.items()} == {
        "input_ids": [[5, 6], [7, 1]],
        "attention_mask": [[1, 1], [1, 0]],
    }


def test_token_types_are_padded() -> None:
    inputs = padded([Pair([5, 6], [0, 1]), Pair([7], [1])], padding=9, with_types=True)

    assert inputs["token_type_ids"].tolist() == [[0, 1], [1, 0]]
