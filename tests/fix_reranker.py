"""Tiny random cross-encoders, one of each kind, that need no download."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tests.fix_encoder import SPREAD, WORDS

LONGEST = 64
"""The window of the tiny classifiers."""

LONGEST_WITH_PROMPT = 384
"""That of the tiny Qwen3, whose prompt takes 223 of it."""


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
        _wordpieces(),
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
        vocab_size=300,
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
        _unigrams(),
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
        vocab_size=300,
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
        _bytes(),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
    )
    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=320,
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


def _wordpieces() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        [WORDS],
        trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def _unigrams() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=100,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return tokenizer


def _bytes() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # As words of their own and often, so that each becomes one token, as in the real one.
    tokenizer.train_from_iterator([WORDS, *["yes", "no"] * 50], trainer)
    tokenizer.add_tokens([AddedToken(tag, special=False) for tag in ("<think>", "</think>")])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer
