"""Tokenizers of rerankers, of the transformers library, and the truncation of questions."""

from __future__ import annotations

from typing import Any

from serving.adapters.reranker.checkpoint import RerankerCheckpoint


def load_tokenizer(checkpoint: RerankerCheckpoint) -> Any:
    """The tokenizer, truncating at the end of a text."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(
        checkpoint.folder, local_files_only=True, truncation_side="right"
    )


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
