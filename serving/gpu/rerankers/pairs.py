"""Batches of question-text pairs, and truncation of questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from serving.ports.reranking import Pair

Inputs = dict[str, Tensor]
"""The inputs of a transformers model, by name: each int64 (pairs, longest)."""


def padded(pairs: Sequence[Pair], padding: int) -> Inputs:
    """Rows of equal length, padded at the right; `attention_mask` is 1 where a token is."""
    inputs = {
        "input_ids": _rows([pair.ids for pair in pairs], padding),
        "attention_mask": _rows([[1] * len(pair) for pair in pairs], 0),
    }
    types = [pair.types for pair in pairs if pair.types is not None]
    if types:
        inputs["token_type_ids"] = _rows(types, 0)
    return inputs


def _rows(lists: Sequence[Sequence[int]], padding: int) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in lists], True, padding)


def beginning(tokenizer: Any, text: str, most: int) -> str:
    """The longest prefix of a text with at most `most` tokens.

    Args:
        tokenizer: Of the transformers library.
        text: Any text.
        most: Tokens, without special ones.
    """
    encoded = tokenizer(
        text,
        add_special_tokens=False,
        split_special_tokens=True,
        return_offsets_mapping=True,
        verbose=False,
    )
    if len(encoded.input_ids) <= most:
        return text
    _, end = encoded.offset_mapping[most - 1]
    return text[:end]
