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

from serving.adapters.encoder import token_states
from serving.adapters.encoder.checkpoint import WINDOW_OVERLAP, EncoderCheckpoint
from serving.adapters.encoder.onnx_encoder import OnnxEncoder, OnnxPrecision
from serving.adapters.encoder.probes import PROBE_TEXTS
from serving.adapters.encoder.published import open_model
from serving.adapters.encoder.token_states import axes_path, content_tokens
from serving.adapters.vector_index.device_vector import DeviceVector
from serving.config.settings import default_cache_dir
from serving.gpu.encoders.qwen3_encoder import Qwen3Encoder
from serving.gpu.encoders.torch_encoder import TorchEncoder
from serving.ports.embedding import AXES_BYTES, StatedVector, TextEncoder, TokenIds, Vectors

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


def test_rows_equal_those_of_sentence_transformers(
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


WIDTH = 8
TEXTS = ("we sailed to goa", "goa", "caroline : we sailed to the agency , and we sailed to goa")


@pytest.fixture
def axes(
    tiny_graph: EncoderCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> np.ndarray:
    """The axes of the tiny model, which are found as those of a published one are."""
    monkeypatch.setattr(token_states, "AXES", tmp_path)
    drawn = np.random.default_rng(0).standard_normal((tiny_graph.model.dimension, WIDTH))
    made = drawn.astype(np.float32)
    np.save(axes_path(tiny_graph), made)
    return made


def by_loops(
    encoder: OnnxEncoder, content: np.ndarray, axes: np.ndarray, window: TokenIds
) -> list[list[int]]:
    """The states of a window, one word after another."""
    states, _ = encoder.last_states([window])
    words = [state @ axes for state, token in zip(states[0], window, strict=True) if content[token]]
    return [np.round(127 * word / np.linalg.norm(word)).tolist() for word in words]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_states_are_those_of_content_words(
    tiny_graph: EncoderCheckpoint, axes: np.ndarray, tmp_path: Path, precision: OnnxPrecision
) -> None:
    encoder = OnnxEncoder(tiny_graph, tmp_path, precision=precision)
    content = content_tokens(tiny_graph)
    windows = [encoder.tokenize_document(text)[0] for text in TEXTS]

    documents, questions = encoder.encode_documents(windows), encoder.encode_queries(windows)

    np.testing.assert_array_equal(documents.vectors, encoder.encode(windows))
    for window, stored, question in zip(windows, documents.states, questions, strict=True):
        assert isinstance(question, StatedVector)
        wanted = by_loops(encoder, content, axes, window)
        np.testing.assert_allclose(question.states, wanted, atol=1)
        assert stored == question.axes + question.states.tobytes()
        assert len(wanted) < len(window)
        assert len(question.axes) == AXES_BYTES


def test_text_of_function_words_has_no_states(
    tiny_graph: EncoderCheckpoint, axes: np.ndarray, tmp_path: Path
) -> None:
    encoder = OnnxEncoder(tiny_graph, tmp_path)
    windows = encoder.tokenize_document("to the , and")

    assert encoder.encode_documents(windows).states == (b"",)
    assert not isinstance(encoder.encode_queries(windows)[0], StatedVector)


def test_encoder_without_axes_makes_no_states(
    tiny_graph: EncoderCheckpoint, tmp_path: Path
) -> None:
    encoder = OnnxEncoder(tiny_graph, tmp_path)
    windows = encoder.tokenize_document("we sailed")

    assert encoder.encode_documents(windows).states == ()
    assert not isinstance(encoder.encode_queries(windows)[0], StatedVector)


@pytest.mark.model
def test_default_model_has_axes() -> None:
    checkpoint = open_model("minilm", default_cache_dir(), fetch=True)

    assert np.load(axes_path(checkpoint)).shape == (checkpoint.model.dimension, 64)
