"""The token types of question-text pairs."""

from __future__ import annotations

import torch

from serving.gpu.rerankers.sequence_classifier import separator_of, types_of
from serving.ports.reranking import Pair

CLS, SEP = 101, 102


def test_types_change_after_the_first_separator() -> None:
    ids = torch.tensor([[CLS, 5, SEP, 6, 7, SEP], [CLS, SEP, 6, SEP, 0, 0]])

    assert types_of(ids, SEP).tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]]


def test_separator_is_the_last_token_of_the_question() -> None:
    assert separator_of(Pair([CLS, 5, SEP, 6, SEP], [0, 0, 0, 1, 1])) == SEP


def test_pair_without_types_has_no_separator() -> None:
    assert separator_of(Pair([0, 5, 2, 2, 6, 2], [0] * 6)) is None
    assert separator_of(Pair([0, 5, 2, 2, 6, 2])) is None
