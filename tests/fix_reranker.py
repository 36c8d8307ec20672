"""Tiny random cross-encoders, one of each kind, that need no download."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer

from tests.fix_encoder import SPREAD
from tests.tiny_tokenizers import (
    END_OF_TEXT,
    END_OF_TURN,
    VOCABULARY,
    byte_pairs,
    unigrams,
    wordpieces,
)

LONGEST = 64
"""The window of the tiny classifiers."""

LONGEST_WITH_PROMPT = 384
"""That of the tiny Qwen3, whose prompt takes 134 of it."""

THOUGHTS = ("<think>", "</think>")
"""The tokens that the real Qwen3 has beyond those of its training."""


@pytest.fixture(scope="session")
def tiny_bert_reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT with one logit, which is told question from text by the types of tokens."""
    folder = tmp_path_factory.mktemp("bert-reranker")
    write_bert_reranker(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_xlmr_reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random XLM-R with one logit, whose padding is token 1 and whose positions begin at 2."""
    folder = tmp_path_factory.mktemp("xlmr-reranker")
    write_xlmr_reranker(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_qwen3_reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3 language model with the special tokens of the real one."""
    folder = tmp_path_factory.mktemp("qwen3-reranker")
    write_qwen3_reranker(folder)
    return folder


def write_bert_reranker(folder: Path, labels: int = 1) -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    _save_tokenizer(
        folder,
        wordpieces(),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=LONGEST,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=LONGEST,
        id2label={label: f"LABEL_{label}" for label in range(labels)},
        initializer_range=SPREAD,
    )
    BertForSequenceClassification(config).save_pretrained(folder)


def write_xlmr_reranker(folder: Path) -> None:
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

    _save_tokenizer(
        folder,
        unigrams(),
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
    )
    torch.manual_seed(2)
    config = XLMRobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=LONGEST + 2,
        type_vocab_size=1,
        id2label={0: "LABEL_0"},
        initializer_range=SPREAD,
    )
    XLMRobertaForSequenceClassification(config).save_pretrained(folder)


def write_qwen3_reranker(folder: Path, longest: int = LONGEST_WITH_PROMPT) -> None:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    _save_tokenizer(
        folder,
        _qwen3_tokenizer(),
        eos_token=END_OF_TURN,
        pad_token=END_OF_TEXT,
        padding_side="left",
    )
    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=VOCABULARY + len(THOUGHTS),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=longest,
        tie_word_embeddings=True,
        initializer_range=SPREAD,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)


def _save_tokenizer(folder: Path, tokenizer: Tokenizer, **settings: object) -> None:
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, **settings
    )
    wrapped.save_pretrained(folder)


def _qwen3_tokenizer() -> Tokenizer:
    # As words of their own and often, so that each becomes one token, as in the real one.
    answers = ["yes", "no"] * 50
    tokenizer = byte_pairs(answers)
    tokenizer.add_tokens([AddedToken(tag, special=False) for tag in THOUGHTS])
    return tokenizer
