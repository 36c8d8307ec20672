"""The packaged sentence encoder, and tiny random models that need no download."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.adapters.encoder.checkpoint import Checkpoint, open_checkpoint
from serving.adapters.encoder.onnx_encoder import OnnxEncoder
from serving.adapters.encoder.torch_encoder import TorchEncoder
from serving.config import default_cache_dir
from serving.ports import TextEncoder
from tests.tiny_tokenizers import (
    END_OF_TEXT,
    END_OF_TURN,
    VOCABULARY,
    byte_pairs_with_end,
    wordpieces,
)

LONGEST = 96
"""The window of the tiny BERT."""

LONGEST_WITH_PROMPT = 256
"""That of the tiny Qwen3, whose instruction takes 72 of it."""

INSTRUCTION = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)
"""What the published Qwen3-Embedding has before a question."""

SPREAD = 0.2
"""Of their weights: with the usual 0.02 all texts nearly coincide, and no comparison could fail."""


@pytest.fixture(scope="session")
def minilm() -> Checkpoint:
    """All-MiniLM-L6-v2 as its package carries it."""
    return open_checkpoint()


@pytest.fixture(scope="session")
def reference_encoder(minilm: Checkpoint) -> TorchEncoder:
    """MiniLM in float32 through sentence-transformers."""
    return TorchEncoder(minilm)


@pytest.fixture(scope="session")
def sentence_encoder(minilm: Checkpoint) -> TextEncoder:
    """MiniLM as a desk runs it; exported once into the user's cache."""
    return OnnxEncoder(minilm, default_cache_dir())


MakeBert = Callable[[str], Path]


@pytest.fixture(scope="session")
def make_tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> MakeBert:
    """Makes the folder of a random BERT with the given pooling: 64 dimensions, 2 layers."""

    def make(pooling: str) -> Path:
        folder = tmp_path_factory.mktemp(f"bert-{pooling}")
        _write_bert(folder, pooling)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny_bert(make_tiny_bert: MakeBert) -> Checkpoint:
    """A random BERT that pools its first token."""
    return open_checkpoint(str(make_tiny_bert("cls")))


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A random Qwen3 embedder: causal, pools its last token, which is also its padding."""
    folder = tmp_path_factory.mktemp("qwen3")
    write_qwen3(folder)
    return open_checkpoint(str(folder))


def _write_bert(folder: Path, pooling: str) -> None:
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=LONGEST,
        initializer_range=SPREAD,
    )
    BertModel(config).save_pretrained(folder)
    _write_modules(folder, pooling, query_prompt="when : ")
    wordpieces().save(str(folder / "tokenizer.json"))
    _write_tokenizer_config(folder, "[PAD]")


def write_qwen3(folder: Path) -> None:
    """A tiny Qwen3-Embedding in the layout and with the special tokens of the published ones."""
    import torch
    from transformers import Qwen3Config, Qwen3Model

    torch.manual_seed(7)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        # Heads wider than the stream divided among them, as in the published 0.6B and 4B.
        head_dim=32,
        max_position_embeddings=LONGEST_WITH_PROMPT,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
        initializer_range=SPREAD,
    )
    model = Qwen3Model(config)
    for weights in model.parameters():
        if weights.ndim == 1:
            # Those of the norms, which are all 1 at first: nobody would miss one, or swap two.
            torch.nn.init.normal_(weights, mean=1, std=SPREAD)
    model.save_pretrained(folder)
    _write_modules(folder, "lasttoken", query_prompt=INSTRUCTION)
    byte_pairs_with_end().save(str(folder / "tokenizer.json"))
    _write_tokenizer_config(
        folder,
        END_OF_TEXT,
        eos_token=END_OF_TURN,
        padding_side="left",
        model_max_length=LONGEST_WITH_PROMPT,
    )


def _write_modules(folder: Path, pooling: str, query_prompt: str) -> None:
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    listed = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    pooled = {"word_embedding_dimension": 64, "pooling_mode": pooling}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooled))
    prompts = {"prompts": {"query": query_prompt, "document": ""}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))


def _write_tokenizer_config(folder: Path, padding: str, **more: object) -> None:
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": LONGEST,
        "pad_token": padding,
        **more,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
