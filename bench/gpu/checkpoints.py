"""Checkpoints with random weights, in the layout of published ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Model

from bench.gpu.networks.cases import TINY_BERT, WINDOW
from bench.gpu.networks.contenders import PUBLISHED_BERTS, library_bert, qwen3_config
from bench.gpu.networks.random_weights import PUBLISHED, TINY_QWEN3

VOCABULARY = 8192
"""Tokens of each model: few texts have no more, and the others would never be read."""

INSTRUCTION = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)
"""The instruction of the published Qwen3-Embedding before a question: 22 tokens of its own."""

_END = "<|endoftext|>"
_BERT_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def save_qwen3_embedder(folder: Path, texts: Iterable[str], *, tiny: bool) -> None:
    """Writes Qwen3-Embedding-0.6B, or one of no size, with a tokenizer trained on texts."""
    its = replace(TINY_QWEN3 if tiny else PUBLISHED["0.6B"], vocabulary=VOCABULARY)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(
        [*texts, INSTRUCTION],
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=[_END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {_END}", special_tokens=[(_END, tokenizer.token_to_id(_END))]
    )
    torch.manual_seed(0)
    Qwen3Model(qwen3_config(its)).bfloat16().save_pretrained(folder)
    _save_tokenizer(folder, tokenizer, {"pad_token": _END, "padding_side": "left"})
    names = ("Transformer", "Pooling", "Normalize")
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{name}"}
        for n, (path, name) in enumerate(zip(("", "1_Pooling", "2_Normalize"), names, strict=True))
    ]
    _write(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": its.hidden, "pooling_mode_lasttoken": True}
    _write(folder / "1_Pooling" / "config.json", pooling)
    prompts = {"prompts": {"query": INSTRUCTION, "document": ""}}
    _write(folder / "config_sentence_transformers.json", prompts)


def save_bert_reranker(folder: Path, texts: Iterable[str], *, tiny: bool) -> None:
    """Writes ms-marco-MiniLM-L6-v2, or one of no size, with a tokenizer trained on texts."""
    published = TINY_BERT if tiny else PUBLISHED_BERTS["ms-marco-MiniLM-L6-v2"]
    its = replace(published, vocabulary=VOCABULARY)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=[*_BERT_TOKENS], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    named = {f"{name.strip('[]').lower()}_token": name for name in _BERT_TOKENS}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    about = {**named, "model_max_length": WINDOW, "model_input_names": inputs}
    library_bert(its, torch.device("cpu")).bfloat16().save_pretrained(folder)
    _save_tokenizer(folder, tokenizer, about)


def _save_tokenizer(folder: Path, tokenizer: Tokenizer, about: Mapping[str, object]) -> None:
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, **about
    )
    wrapped.save_pretrained(folder)


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
