"""Batches of token windows, and their vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from serving.adapters.encoder.windows import batches_by_length, encode_by_length, padded
from serving.ports.embedding import TokenIds

BUDGET = 64

token_lists = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=100), max_size=12)


class Model:
    """Returns (first token, length, 1) for each window, and records the batches."""

    def __init__(self) -> None:
        self.batches: list[Sequence[TokenIds]] = []

    def __call__(self, batch: Sequence[TokenIds]) -> NDArray[np.float32]:
        self.batches.append(batch)
        return np.array([[window[0], len(window), 1] for window in batch], np.float32)


def test_padding_is_at_the_right_and_masked() -> None:
    ids, mask = padded([[5, 6], [7]])

    assert ids.tolist() == [[5, 6], [7, 0]]
    assert mask.tolist() == [[1, 1], [1, 0]]


@given(token_lists)
def test_rows_come_in_the_order_of_the_windows_whatever_the_batches(
    given_windows: list[list[int]],
) -> None:
    made = encode_by_length(given_windows, Model(), 3, BUDGET)

    expected = np.array([[w[0], len(w), 1] for w in given_windows], np.float32).reshape(-1, 3)
    np.testing.assert_allclose(made * expected[:, 2:] / made[:, 2:], expected, rtol=1e-4)


@given(token_lists)
def test_a_batch_keeps_to_its_budget_padding_included(given_windows: list[list[int]]) -> None:
    model = Model()
    encode_by_length(given_windows, model, 3, BUDGET)

    for batch in model.batches:
        assert len(batch) * max(map(len, batch)) <= max(BUDGET, len(batch[0]))


def test_rows_have_unit_length_after_they_are_truncated() -> None:
    made = encode_by_length([[3, 1, 1, 1]], Model(), 2, BUDGET)

    np.testing.assert_allclose(made, [[0.6, 0.8]], rtol=1e-6)


# ---------------------------------------------------------------- batches of like length

lengths = st.lists(st.integers(1, 100), max_size=30)


@given(lengths)
def test_windows_are_in_exactly_one_batch(given_lengths: list[int]) -> None:
    batches = batches_by_length(given_lengths, BUDGET)

    assert sorted(place for batch in batches for place in batch) == list(range(len(given_lengths)))


@given(lengths)
def test_padding_counts_in_the_budget_of_a_batch(given_lengths: list[int]) -> None:
    for batch in batches_by_length(given_lengths, BUDGET):
        longest = max(given_lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * longest <= BUDGET


@given(lengths)
def test_batches_grow_longer(given_lengths: list[int]) -> None:
    order = [place for batch in batches_by_length(given_lengths, BUDGET) for place in batch]

    assert [given_lengths[place] for place in order] == sorted(given_lengths)
