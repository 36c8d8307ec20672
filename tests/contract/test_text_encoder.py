"""The contract of text encoders, in every runtime."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from serving.adapters.encoder.checkpoint import WINDOW_OVERLAP, EncoderCheckpoint
from serving.adapters.encoder.onnx_encoder import OnnxEncoder
from serving.adapters.encoder.probes import PROBE_TEXTS
from serving.adapters.vector_index.device_vector import DeviceVector
from serving.gpu.encoders.qwen3_encoder import Qwen3Encoder
from serving.gpu.encoders.torch_encoder import TorchEncoder
from serving.ports.embedding import TextEncoder, Vectors

MIN_COSINE = 0.9999

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

Run = Callable[[EncoderCheckpoint, Path], TextEncoder]

RUNTIMES: dict[str, Run] = {
    "torch": lambda checkpoint, _: TorchEncoder(checkpoint),
    "onnx": lambda checkpoint, cache_dir: OnnxEncoder(checkpoint, cache_dir),
    "int8": lambda checkpoint, cache_dir: OnnxEncoder(checkpoint, cache_dir, precision="int8"),
    "qwen3": lambda checkpoint, _: Qwen3Encoder(checkpoint),
    "cuda": lambda checkpoint, _: TorchEncoder(checkpoint, device="cuda"),
    "graphs": lambda checkpoint, _: Qwen3Encoder(checkpoint, device="cuda"),
}


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("minilm-torch", marks=pytest.mark.model),
        "tiny_bert-torch",
        "tiny_graph-onnx",
        "tiny_graph-int8",
        "tiny_qwen3-torch",
        "tiny_qwen3-qwen3",
        *(
            pytest.param(case, marks=[pytest.mark.gpu, needs_cuda])
            for case in ("tiny_bert-cuda", "tiny_qwen3-cuda", "tiny_qwen3-graphs")
        ),
    ],
)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TextEncoder, EncoderCheckpoint]:
    model, runtime = request.param.rsplit("-", 1)
    checkpoint: EncoderCheckpoint = request.getfixturevalue(model)
    return RUNTIMES[runtime](checkpoint, tmp_path_factory.mktemp("cache")), checkpoint


@pytest.fixture(scope="session")
def encoder(case: tuple[TextEncoder, EncoderCheckpoint]) -> TextEncoder:
    return case[0]


@pytest.fixture
def is_int8(request: pytest.FixtureRequest) -> bool:
    return bool(request.node.callspec.id.endswith("int8"))


@pytest.fixture(scope="session")
def checkpoint(case: tuple[TextEncoder, EncoderCheckpoint]) -> EncoderCheckpoint:
    return case[1]


def rows(encoder: TextEncoder, *texts: str) -> Vectors:
    return encoder.encode([encoder.tokenize_document(text)[0] for text in texts])


def assert_same(made: Vectors, wanted: Vectors, cosine: float = MIN_COSINE) -> None:
    assert made.shape == wanted.shape
    assert (made * wanted).sum(axis=1).min() >= cosine


def test_rows_are_what_sentence_transformers_makes(
    encoder: TextEncoder, checkpoint: EncoderCheckpoint, tiny_bert: EncoderCheckpoint, is_int8: bool
) -> None:
    from sentence_transformers import SentenceTransformer

    folder = tiny_bert.folder if checkpoint.graph else checkpoint.folder
    library = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    wanted = library.encode(list(PROBE_TEXTS), prompt_name=None, normalize_embeddings=True)

    assert_same(rows(encoder, *PROBE_TEXTS), wanted, 0.97 if is_int8 else MIN_COSINE)


def test_a_question_carries_the_prompt_of_the_model(
    encoder: TextEncoder, checkpoint: EncoderCheckpoint
) -> None:
    asked = encoder.encode([encoder.tokenize_query("we sailed")])

    assert_same(asked, rows(encoder, f"{checkpoint.query_prompt}we sailed"))


def test_a_question_has_the_same_row_where_it_was_computed(
    encoder: TextEncoder, request: pytest.FixtureRequest
) -> None:
    windows = [encoder.tokenize_query(text) for text in PROBE_TEXTS]
    made = encoder.encode_queries(windows)

    for vector, wanted in zip(made, encoder.encode(windows), strict=True):
        assert vector is not None
        assert len(vector) == encoder.model().dimension
        np.testing.assert_allclose(np.asarray(vector), wanted, atol=1e-5)
        device = vector.tensor.device.type if isinstance(vector, DeviceVector) else "cpu"
        assert (device == "cuda") == request.node.callspec.id.endswith(("cuda", "graphs"))


def test_rows_are_float32_of_unit_length_and_dimension(encoder: TextEncoder) -> None:
    made = rows(encoder, *PROBE_TEXTS)

    assert made.dtype == np.float32
    assert made.shape == (len(PROBE_TEXTS), encoder.model().dimension)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, rtol=1e-5)


def test_row_does_not_depend_on_its_batch(encoder: TextEncoder) -> None:
    together = rows(encoder, *PROBE_TEXTS)
    backwards = rows(encoder, *reversed(PROBE_TEXTS))[::-1]
    alone = np.concatenate([rows(encoder, text) for text in PROBE_TEXTS])

    assert_same(together, alone)
    assert_same(backwards, alone)


@pytest.mark.parametrize("text", ["", " ", "\n", "😀", "👩\u200d👩\u200d👧", "\x00", "\u202e"])
def test_odd_texts_have_rows_too(encoder: TextEncoder, text: str) -> None:
    made = rows(encoder, text)

    assert np.isfinite(made).all()


def test_long_text_has_overlapping_windows(
    encoder: TextEncoder, checkpoint: EncoderCheckpoint
) -> None:
    windows = encoder.tokenize_document("we sailed to goa . " * 120)

    assert len(windows) > 1
    assert all(len(window) <= checkpoint.window for window in windows)
    for earlier, later in pairwise(windows):
        # Without special tokens: one at the end, and in some models one at the start.
        shared = list(earlier)[-1 - WINDOW_OVERLAP : -1]
        assert shared in (list(later)[:WINDOW_OVERLAP], list(later)[1 : 1 + WINDOW_OVERLAP])


def test_a_text_of_32_kib_is_embedded_to_its_end(encoder: TextEncoder) -> None:
    text = "memory is hard . " * 1900 + "we sailed to goa"
    windows = encoder.tokenize_document(text)
    made = encoder.encode(windows)

    assert len(made) == len(windows)
    assert list(windows[-1])[-5:-1] == list(encoder.tokenize_document("we sailed to goa")[0])[-5:-1]


def test_a_question_beyond_the_window_is_cut(
    encoder: TextEncoder, checkpoint: EncoderCheckpoint
) -> None:
    assert len(encoder.tokenize_query("we sailed to goa " * 500)) == checkpoint.window


def test_fingerprint_is_the_checkpoints_except_in_int8(
    encoder: TextEncoder, checkpoint: EncoderCheckpoint, is_int8: bool
) -> None:
    made = encoder.model()

    assert (made.fingerprint == checkpoint.model.fingerprint) == (not is_int8)
    assert replace(made, fingerprint="") == replace(checkpoint.model, fingerprint="")


def test_several_threads_may_tokenize_while_one_encodes(encoder: TextEncoder) -> None:
    texts = [f"we sailed to goa {'and home ' * count}" for count in range(40)]
    wanted = [encoder.tokenize_document(text) for text in texts]

    with ThreadPoolExecutor(4) as threads:
        made = threads.map(encoder.tokenize_document, texts * 4)
        encoder.encode([window for windows in wanted for window in windows])

    assert list(made) == wanted * 4


def test_device_is_reported(encoder: TextEncoder, request: pytest.FixtureRequest) -> None:
    device = encoder.device()

    assert device.is_accelerator == request.node.callspec.id.endswith(("cuda", "graphs"))
    assert device.token_budget >= 256
