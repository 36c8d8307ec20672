"""Reranker checkpoints on disk: recognition and error messages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from serving.adapters.reranker.checkpoint import LONGEST_WINDOW, Kind, open_checkpoint
from serving.composition.models import open_reranker
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, NotReadyError
from serving.gpu.rerankers.torch_cross_encoder import TorchCrossEncoder
from serving.pipeline.inference.reranker import QueuedReranker
from serving.ports.reranking import CrossEncoder
from tests.fakes.reranker import settled
from tests.fixtures.reranker import LONGEST, LONGEST_WITH_PROMPT
from tests.support.checkpoints import (
    Spoil,
    config,
    lacking,
    rewrite,
    with_garbage_for_weights,
    with_weights,
)

EMBEDDINGS = "model.embed_tokens.weight"

# ---------------------------------------------------------------- what is found


@pytest.fixture
def bert(tiny_bert_reranker: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bert_reranker, tmp_path / "bert"))


@pytest.fixture
def qwen3(tiny_qwen3_reranker: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_qwen3_reranker, tmp_path / "qwen3"))


def logits_of(encoder: CrossEncoder, query: str, texts: Sequence[str]) -> list[float]:
    return encoder.score(encoder.tokenize(query, texts))


@pytest.mark.parametrize(
    ("name", "kind", "window"),
    [
        ("tiny_bert_reranker", Kind.ONE_LOGIT, LONGEST),
        ("tiny_xlmr_reranker", Kind.ONE_LOGIT, LONGEST),
        ("tiny_qwen3_reranker", Kind.YES_OR_NO, LONGEST_WITH_PROMPT),
    ],
)
def test_kind_and_window_are_read_from_the_folder(
    request: pytest.FixtureRequest, name: str, kind: Kind, window: int
) -> None:
    checkpoint = open_checkpoint(str(request.getfixturevalue(name)))

    assert (checkpoint.kind, checkpoint.window) == (kind, window)


def test_a_window_is_bounded_however_long_the_model_would_read(qwen3: Path) -> None:
    rewrite(qwen3 / "config.json", max_position_embeddings=40_960)

    assert open_checkpoint(str(qwen3)).window == LONGEST_WINDOW


def test_a_shorter_window_is_kept_to(bert: Path) -> None:
    rewrite(bert / "tokenizer_config.json", model_max_length=8)
    encoder = TorchCrossEncoder(open_checkpoint(str(bert)))

    # Three of the eight are special tokens, and three the question's.
    assert logits_of(encoder, "a b c", ["we sailed"]) == logits_of(
        encoder, "a b c", ["we sailed home"]
    )


def test_a_model_that_is_not_on_the_machine_is_refused() -> None:
    with pytest.raises(DependencyError, match="no folder and not available from the hub"):
        open_checkpoint("nobody/no-such-model")


# ---------------------------------------------------------------- what is refused


def without(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def as_embedder(folder: Path) -> None:
    modules = [
        {"type": f"sentence_transformers.models.{name}"} for name in ("Transformer", "Pooling")
    ]
    (folder / "modules.json").write_text(json.dumps(modules))


@pytest.mark.parametrize(
    ("model", "spoil", "why"),
    [
        ("bert", without("model.safetensors"), "the checkpoint has no safetensors"),
        ("bert", without("config.json"), "the checkpoint has no config.json"),
        ("bert", config(id2label={"0": "no", "1": "yes"}), "2 outputs, but a reranker has one"),
        ("bert", config(id2label=None), "2 outputs, but a reranker has one"),
        ("bert", config(architectures=["BertModel"]), "no known reranker"),
        ("bert", config(architectures=None), "no known reranker"),
        ("bert", config(model_type="gpt2"), "type 'gpt2' .* is no known reranker"),
        ("qwen3", config(architectures=["Qwen3Model"]), "no known reranker"),
        ("qwen3", as_embedder, "no known reranker"),
    ],
)
def test_folder_without_reranker_is_rejected(
    request: pytest.FixtureRequest, model: str, spoil: Spoil, why: str
) -> None:
    folder: Path = request.getfixturevalue(model)
    spoil(folder)

    with pytest.raises(DependencyError, match=why) as caught:
        open_checkpoint(str(folder))
    assert str(folder) not in str(caught.value)


def with_fewer_embeddings_than_tokens(folder: Path) -> None:
    with_weights(folder, lambda name, row: row[:-1] if name == EMBEDDINGS else row)
    rewrite(folder / "config.json", vocab_size=301)


@pytest.mark.parametrize(
    ("model", "spoil", "why"),
    [
        ("bert", lacking("classifier"), "the checkpoint lacks weights of the model"),
        ("bert", with_garbage_for_weights, "cannot be loaded on 'cpu'"),
        ("bert", without("tokenizer.json"), "no tokenizer.json that can be read"),
        ("qwen3", config(max_position_embeddings=180), "too short for its prompt"),
        (
            "qwen3",
            lacking("model.layers.0.mlp.up_proj"),
            "lacks tensor 'model.layers.0.mlp.up_proj.weight'",
        ),
        ("qwen3", config(tie_word_embeddings=False), "lacks tensor 'lm_head.weight'"),
        ("qwen3", with_fewer_embeddings_than_tokens, "has token 301, the network has 301 of them"),
        ("qwen3", with_garbage_for_weights, "model.safetensors cannot be read"),
        ("qwen3", config(hidden_act="relu"), "hidden_act is 'relu', which"),
    ],
)
def test_unloadable_reranker_is_rejected(
    request: pytest.FixtureRequest, model: str, spoil: Spoil, why: str
) -> None:
    folder: Path = request.getfixturevalue(model)
    spoil(folder)
    checkpoint = open_checkpoint(str(folder))

    with pytest.raises(DependencyError, match=why) as caught:
        TorchCrossEncoder(checkpoint)
    assert str(folder) not in str(caught.value)


def test_separate_head_is_read_if_present(qwen3: Path) -> None:
    tied = logits_of(TorchCrossEncoder(open_checkpoint(str(qwen3))), "who?", ["we", "goa"])
    head = -load_file(qwen3 / "model.safetensors")[EMBEDDINGS]
    with_weights(qwen3, lambda _, row: row, **{"lm_head.weight": head})
    rewrite(qwen3 / "config.json", tie_word_embeddings=False)

    untied = logits_of(TorchCrossEncoder(open_checkpoint(str(qwen3))), "who?", ["we", "goa"])

    assert untied == pytest.approx([-logit for logit in tied], abs=1e-5)


@pytest.mark.parametrize("kind", ["bert", "xlmr", "qwen3"])
def test_bfloat16_logits_are_close_to_float32(request: pytest.FixtureRequest, kind: str) -> None:
    checkpoint = open_checkpoint(str(request.getfixturevalue(f"tiny_{kind}_reranker")))
    texts = ["we sailed to goa", "home", "memory is hard"]
    exact = logits_of(TorchCrossEncoder(checkpoint), "who sailed?", texts)
    half = logits_of(TorchCrossEncoder(checkpoint, precision="bfloat16"), "who sailed?", texts)

    assert half != exact
    assert half == pytest.approx(exact, abs=0.1, rel=0.1)


def test_float16_overflow_is_rejected_at_start(qwen3: Path) -> None:
    with_weights(qwen3, lambda name, row: row * 3e4 if "1.mlp.down_proj" in name else row)
    checkpoint = open_checkpoint(str(qwen3))

    with pytest.raises(DependencyError, match="the logits are not finite in float16"):
        TorchCrossEncoder(checkpoint, precision="float16")
    TorchCrossEncoder(checkpoint)


def test_missing_device_is_refused(tiny_bert_reranker: Path) -> None:
    checkpoint = open_checkpoint(str(tiny_bert_reranker))

    with pytest.raises(DependencyError, match="cannot be loaded on 'cuda:99'"):
        TorchCrossEncoder(checkpoint, device="cuda:99")


def test_reranker_uses_the_configured_threads(tiny_bert_reranker: Path) -> None:
    before = torch.get_num_threads()
    try:
        TorchCrossEncoder(open_checkpoint(str(tiny_bert_reranker)), threads=before + 1)

        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------- as the settings name it


async def test_without_a_model_there_is_no_reranker() -> None:
    async with open_reranker(load_settings({"reranker": {"model": None}})) as reranker:
        assert reranker is None


async def test_named_model_reranks(tiny_bert_reranker: Path) -> None:
    named = {"model": str(tiny_bert_reranker)}
    alone = TorchCrossEncoder(open_checkpoint(str(tiny_bert_reranker)))

    async with open_reranker(load_settings({"reranker": named})) as reranker:
        assert isinstance(reranker, QueuedReranker)
        await settled(reranker)
        logits = await reranker.rerank("who sailed?", ["we sailed", "home"], Deadline.after(30))

    assert logits == pytest.approx(logits_of(alone, "who sailed?", ["we sailed", "home"]), abs=1e-5)


async def test_missing_reranker_does_not_fail_the_start(tmp_path: Path) -> None:
    named = {"model": str(tmp_path)}

    async with open_reranker(load_settings({"reranker": named})) as reranker:
        assert isinstance(reranker, QueuedReranker)
        await settled(reranker)
        with pytest.raises(NotReadyError, match="the checkpoint has no safetensors"):
            await reranker.rerank("who?", ["nobody"], Deadline.after(30))
