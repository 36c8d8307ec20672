"""The token states of the encoder in ONNX Runtime: those of its last layer, on given axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from serving.adapters.encoder import token_states
from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.adapters.encoder.onnx_encoder import OnnxEncoder, OnnxPrecision
from serving.adapters.encoder.published import open_model
from serving.adapters.encoder.token_states import axes_path, content_tokens
from serving.config.settings import default_cache_dir
from serving.ports.embedding import AXES_BYTES, StatedVector, TokenIds

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
