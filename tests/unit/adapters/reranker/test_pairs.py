"""From pairs of texts to batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.adapters.reranker.pairs import batches_by_length, padded
from serving.ports import Pair

BUDGET = 64

lengths = st.lists(st.integers(1, 100), max_size=30)


def test_padding_is_at_the_right_and_masked() -> None:
    inputs = padded([Pair([5, 6]), Pair([7])], padding=1)

    assert {name: rows.tolist() for name, rows in inputs.items()} == {
        "input_ids": [[5, 6], [7, 1]],
        "attention_mask": [[1, 1], [1, 0]],
    }


def test_types_of_tokens_are_padded_too_where_a_model_has_them() -> None:
    inputs = padded([Pair([5, 6], [0, 1]), Pair([7], [1])], padding=9)

    assert inputs["token_type_ids"].tolist() == [[0, 1], [1, 0]]


@given(lengths)
def test_every_place_is_in_one_batch(given_lengths: list[int]) -> None:
    batches = batches_by_length(given_lengths, BUDGET)

    assert sorted(place for batch in batches for place in batch) == list(range(len(given_lengths)))


@given(lengths)
def test_a_batch_keeps_to_its_budget_padding_included(given_lengths: list[int]) -> None:
    for batch in batches_by_length(given_lengths, BUDGET):
        longest = max(given_lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * longest <= BUDGET


@given(lengths)
def test_batches_grow_longer(given_lengths: list[int]) -> None:
    order = [place for batch in batches_by_length(given_lengths, BUDGET) for place in batch]

    assert [given_lengths[place] for place in order] == sorted(given_lengths)
