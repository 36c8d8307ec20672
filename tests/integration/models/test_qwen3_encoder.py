"""The Qwen3 encoder compared with sentence-transformers and transformers, and its errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import processors
from torch import Tensor

from serving.adapters.encoder.checkpoint import EncoderCheckpoint, open_checkpoint
from serving.composition.models import open_embedder
from serving.config.settings import load_settings
from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError, UnsoundVectorError
from serving.gpu.encoders.backend import Backend, backend_of, choose_precision
from serving.gpu.encoders.qwen3_encoder import Qwen3Encoder
from serving.gpu.encoders.torch_encoder import TorchEncoder
from serving.gpu.networks.precision import Precision
from serving.ports.embedding import TokenIds, Vectors
from serving.telemetry import NoRecorder
from tests.support.checkpoints import (
    Spoil,
    config,
    lacking,
    rewrite,
    rewriting,
    with_garbage_for_weights,
    with_weights,
)
from tests.support.tiny_tokenizers import END_OF_TEXT

CLOSE = 1e-5

RAGGED = (
    "goa",
    "when did caroline visit the adoption agency ?",
    "",
    "we sailed to goa with the family and then went home",
    "memory retrieval over many years of talk is hard , but a b c 1 2 3 !",
)
EQUALLY_LONG = ("a b c", "b c a", "c a b", "a a a")
POOLING, TOKENIZER = "1_Pooling/config.json", "tokenizer_config.json"
OVER_LONG = "we sailed to goa with the family and then went home . " * 30


@pytest.fixture(scope="module")
def encoder(tiny_qwen3: EncoderCheckpoint) -> Qwen3Encoder:
    return Qwen3Encoder(tiny_qwen3)


@pytest.fixture(scope="module")
def library(tiny_qwen3: EncoderCheckpoint) -> Any:
    from transformers import AutoModel

    return AutoModel.from_pretrained(tiny_qwen3.folder, local_files_only=True).eval()


@pytest.fixture
def folder(tiny_qwen3: EncoderCheckpoint, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_qwen3.folder, tmp_path / "qwen3"))


def first_windows(encoder: Qwen3Encoder, texts: Sequence[str]) -> list[TokenIds]:
    return [encoder.tokenize_document(text)[0] for text in texts]


def at_unit_length(rows: Tensor) -> Vectors:
    vectors: Vectors = torch.nn.functional.normalize(rows.float(), dim=-1).numpy()
    return vectors


@torch.inference_mode()
def one_by_one(library: Any, windows: Sequence[TokenIds]) -> Vectors:
    """The last state of each window, run alone: nothing is padded, so no mask can be wrong."""
    states = [library(torch.tensor([window])).last_hidden_state[0, -1] for window in windows]
    return at_unit_length(torch.stack(states))


def by_sentence_transformers(
    checkpoint: EncoderCheckpoint, texts: Sequence[str], dimension: int | None = None
) -> Vectors:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        str(checkpoint.folder), device="cpu", local_files_only=True, truncate_dim=dimension
    )
    vectors: Vectors = model.encode(list(texts), normalize_embeddings=True)
    return vectors


def distance(made: Vectors, wanted: Vectors) -> float:
    assert made.shape == wanted.shape
    return float(np.abs(made - wanted).max())


# ---------------------------------------------------------------- what it makes


@pytest.mark.parametrize(
    "texts",
    [RAGGED, RAGGED[::-1], EQUALLY_LONG, RAGGED[1:2], ("",), ("", ""), (OVER_LONG, "", "goa")],
    ids=["ragged", "permuted", "equally long", "single", "empty", "empty twice", "over-long"],
)
def test_rows_equal_transformers_and_sentence_transformers(
    encoder: Qwen3Encoder, library: Any, tiny_qwen3: EncoderCheckpoint, texts: Sequence[str]
) -> None:
    windows = first_windows(encoder, texts)
    made = encoder.encode(windows)

    assert distance(made, one_by_one(library, windows)) < CLOSE
    assert distance(made, by_sentence_transformers(tiny_qwen3, texts)) < CLOSE


def test_shorter_vector_is_the_normalized_head(
    encoder: Qwen3Encoder, tiny_qwen3: EncoderCheckpoint
) -> None:
    short = Qwen3Encoder(open_checkpoint(str(tiny_qwen3.folder), dimension=32))
    windows = first_windows(encoder, RAGGED)
    made = short.encode(windows)

    wanted = by_sentence_transformers(tiny_qwen3, RAGGED, dimension=32)
    assert distance(made, wanted) < CLOSE
    assert short.model().dimension == 32
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_side_on_which_the_tokenizer_pads_does_not_matter(
    encoder: Qwen3Encoder, folder: Path, side: str
) -> None:
    rewrite(folder / TOKENIZER, padding_side=side)
    other = Qwen3Encoder(open_checkpoint(str(folder)))

    made = other.encode(first_windows(other, RAGGED))
    assert distance(made, encoder.encode(first_windows(encoder, RAGGED))) < CLOSE


# ---------------------------------------------------------------- precision


def test_half_precisions_are_close_with_own_fingerprints(
    encoder: Qwen3Encoder, tiny_qwen3: EncoderCheckpoint
) -> None:
    windows = first_windows(encoder, RAGGED)
    precisions: list[Precision] = ["bfloat16", "float16"]
    halves = [Qwen3Encoder(tiny_qwen3, precision=precision) for precision in precisions]

    for half in halves:
        assert (half.encode(windows) * encoder.encode(windows)).sum(axis=1).min() > 0.999
    fingerprints = {each.model().fingerprint for each in (encoder, *halves)}
    assert len(fingerprints) == 3
    assert encoder.model() == tiny_qwen3.model


def test_a_precision_has_one_fingerprint_whatever_runs_it(tiny_qwen3: EncoderCheckpoint) -> None:
    lean = Qwen3Encoder(tiny_qwen3, precision="bfloat16")
    library = TorchEncoder(tiny_qwen3, precision="bfloat16")

    assert lean.model() == library.model()


def test_float16_overflow_is_rejected_at_start(folder: Path) -> None:
    with_weights(folder, lambda name, row: row * 3e4 if "down_proj" in name else row)

    with pytest.raises(DependencyError, match="not finite in float16"):
        Qwen3Encoder(open_checkpoint(str(folder)), precision="float16")
    Qwen3Encoder(open_checkpoint(str(folder)), precision="bfloat16")


def test_overflow_in_a_batch_is_an_error(folder: Path) -> None:
    rare = 1

    def spoilt(name: str, row: Tensor) -> Tensor:
        if "embed_tokens" in name:
            row[rare] = 1e5
        return row

    with_weights(folder, spoilt)
    encoder = Qwen3Encoder(open_checkpoint(str(folder)), precision="float16")
    (window,) = encoder.tokenize_document("<|im_start|>")

    assert rare in window
    with pytest.raises(UnsoundVectorError, match="not finite in float16"):
        encoder.encode([window])
    spoilt_vector, sound = encoder.encode_queries([window, *encoder.tokenize_document("goa")])
    assert spoilt_vector is None
    assert sound is not None


# ---------------------------------------------------------------- what is refused


def with_a_tensor_of_another_shape(folder: Path) -> None:
    with_weights(folder, lambda name, row: row[:-1] if name == "norm.weight" else row)


def with_a_tensor_more(folder: Path) -> None:
    more = {"layers.0.self_attn.q_proj.bias": torch.zeros(128)}
    with_weights(folder, lambda _, row: row, **more)


def with_a_tensor_twice(folder: Path) -> None:
    rows = {"norm.weight": load_file(folder / "model.safetensors")["norm.weight"]}
    save_file(rows, folder / "more.safetensors")


def with_a_dense_layer(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    dense = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    (folder / "modules.json").write_text(json.dumps([*modules, dense]))
    (folder / "3_Dense").mkdir()
    (folder / "3_Dense" / "config.json").write_text(json.dumps({"out_features": 64}))


def rewrite_tokenizer(folder: Path, change: Callable[[Any], None]) -> None:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    change(tokenizer)
    tokenizer.save(str(path))


def without_an_end_token(folder: Path) -> None:
    def change(tokenizer: Any) -> None:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)

    rewrite_tokenizer(folder, change)


def with_a_token_more(folder: Path) -> None:
    rewrite_tokenizer(folder, lambda tokenizer: tokenizer.add_tokens(["<think>"]))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lacking("layers.1.mlp.up_proj"), "lacks tensor 'layers.1.mlp.up_proj.weight'"),
        (with_a_tensor_of_another_shape, r"'norm.weight' is of shape \(63,\), expected \(64,\)"),
        (with_a_tensor_more, "has tensor 'layers.0.self_attn.q_proj.bias', which"),
        (with_a_tensor_twice, "more.safetensors has tensor 'norm.weight', as another"),
        (with_garbage_for_weights, "model.safetensors cannot be read"),
        (config(model_type="qwen2"), "model_type is 'qwen2'"),
        (rewriting(POOLING, pooling_mode="mean"), "does not pool its last token alone"),
        (with_a_dense_layer, "does not pool its last token alone"),
        (without_an_end_token, r"ends no text with None, expected .*endoftext"),
        (
            rewriting(TOKENIZER, pad_token="<|im_end|>"),
            r"ends no text with .*endoftext.*, expected .*im_end",
        ),
        (rewriting(TOKENIZER, pad_token="[PAD]"), r"does not know its padding token '\[PAD\]'"),
        (rewriting(TOKENIZER, pad_token=None), "names no pad_token"),
        (with_a_token_more, "the tokenizer has token 300, the network has 300 of them"),
    ],
)
def test_a_checkpoint_that_would_give_wrong_vectors_is_refused(
    folder: Path, spoil: Spoil, why: str
) -> None:
    spoil(folder)

    with pytest.raises(DependencyError, match=why) as caught:
        Qwen3Encoder(open_checkpoint(str(folder)))
    assert str(folder) not in str(caught.value)


def test_tokenizer_without_end_token_is_rejected(folder: Path) -> None:
    """The tokenizer cuts: of a long text too, the end token must be left."""

    def change(tokenizer: Any) -> None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{END_OF_TEXT} $A", special_tokens=[(END_OF_TEXT, 0)]
        )

    rewrite_tokenizer(folder, change)

    with pytest.raises(DependencyError, match="ends a text with 'a', expected"):
        Qwen3Encoder(open_checkpoint(str(folder)))


@pytest.mark.parametrize("dimension", [31, 65])
def test_untrained_dimension_is_refused(tiny_qwen3: EncoderCheckpoint, dimension: int) -> None:
    with pytest.raises(ValueError, match=f"dimension must be from 32 to .* 64, got {dimension}"):
        open_checkpoint(str(tiny_qwen3.folder), dimension=dimension)


def test_missing_device_is_refused(tiny_qwen3: EncoderCheckpoint) -> None:
    with pytest.raises(DependencyError, match="cannot be loaded on 'cuda:99'"):
        Qwen3Encoder(tiny_qwen3, device="cuda:99")


# ---------------------------------------------------------------- who runs what


def test_checkpoint_in_several_files_gives_equal_rows(encoder: Qwen3Encoder, folder: Path) -> None:
    rows = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(rows)
    parts = {"model-00001-of-00002": names[:9], "model-00002-of-00002": names[9:]}
    for part, of_part in parts.items():
        kept = {f"model.{name}": rows[name] for name in of_part}
        save_file(kept, folder / f"{part}.safetensors", metadata={"format": "pt"})
    other = Qwen3Encoder(open_checkpoint(str(folder)))
    windows = first_windows(encoder, RAGGED)

    assert distance(other.encode(windows), encoder.encode(windows)) == 0


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_only_an_exact_qwen3_uses_the_lean_encoder(
    tiny_qwen3: EncoderCheckpoint, folder: Path, device: str
) -> None:
    rewrite(folder / "config.json", use_sliding_window=True)
    variant = open_checkpoint(str(folder))

    assert backend_of(tiny_qwen3, device) == "qwen3"
    assert backend_of(variant, device) == "torch"


@pytest.mark.parametrize(
    ("precision", "device", "backend", "chosen"),
    [
        ("auto", "cpu", "qwen3", "float32"),
        ("auto", "cuda:1", "qwen3", "bfloat16"),
        ("auto", "cuda", "torch", "float32"),
        ("float16", "cuda", "torch", "float16"),
        ("float32", "cuda", "qwen3", "float32"),
    ],
)
def test_qwen3_on_an_accelerator_defaults_to_bfloat16(
    precision: Any, device: str, backend: Backend, chosen: str
) -> None:
    assert choose_precision(precision, device, backend) == chosen


@pytest.mark.parametrize("backend", ["qwen3", "torch"])
def test_int8_without_an_onnx_graph_is_refused(backend: Backend) -> None:
    with pytest.raises(DependencyError, match=f"int8 is for an ONNX graph, .* run by {backend}"):
        choose_precision("int8", "cpu", backend)


def test_runtime_is_known_without_loading_torch(tiny_qwen3: EncoderCheckpoint) -> None:
    program = f"""
import sys
from serving.gpu.encoders.backend import backend_of
from serving.adapters.encoder.checkpoint import open_checkpoint
print(backend_of(open_checkpoint({str(tiny_qwen3.folder)!r}), "cpu"))
print(sorted({{"torch", "transformers", "onnx"}} & sys.modules.keys()))
"""
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert outcome.stdout.split() == ["qwen3", "[]"]


async def test_service_embeds_by_configured_model_and_precision(
    encoder: Qwen3Encoder, tiny_qwen3: EncoderCheckpoint
) -> None:
    settings = load_settings(
        {"embedder": {"model": str(tiny_qwen3.folder), "dimension": 32, "precision": "bfloat16"}}
    )

    async with open_embedder(settings, NoRecorder()) as embedder:
        made = await embedder.embed_query("goa", Deadline.after(30))
        model = await embedder.model()

    wanted = encoder.encode([encoder.tokenize_query("goa")])[0, :32]
    assert np.asarray(made) @ wanted / np.linalg.norm(wanted) > 0.999
    assert model.dimension == 32
    assert model.fingerprint.endswith("-bfloat16")
