"""A packed encoder, read and converted: a tiny one, against the arithmetic of its definition."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import erf, sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer

from serving.adapters.encoder import packed_e5
from serving.adapters.encoder.checkpoint import GRAPH_FILE
from serving.adapters.encoder.packed_e5 import PackedModel, Shape, read_packed, write_model
from serving.adapters.encoder.windows import batches_by_length, encode_by_length, padded
from serving.adapters.onnx_session import open_session
from serving.domain.errors import DependencyError
from serving.ports.embedding import TokenIds

SHAPE = Shape(hidden=32, layers=2, heads=2, inner=64, words=6, positions=8, types=2)
EPSILON = 1e-6
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "\u2581a", "b"]
UNKNOWN = 3


def _sizes() -> dict[str, tuple[int, int]]:
    hidden, inner = SHAPE.hidden, SHAPE.inner
    of_layer = dict.fromkeys(("q", "k", "v", "ao"), (hidden, hidden))
    of_layer |= {"fi": (inner, hidden), "fo": (hidden, inner)}
    return {
        f"l{layer}.{name}": size for layer in range(SHAPE.layers) for name, size in of_layer.items()
    }


def _packed_file() -> tuple[bytes, dict[str, NDArray[np.float32]]]:
    """A file of random weights, and its tensors in float32 as (outputs, inputs)."""
    random = np.random.default_rng(5)
    tensors: dict[str, NDArray[np.float32]] = {}
    written: dict[str, bytes] = {}

    def add_matrix(name: str, outputs: int, inputs: int) -> None:
        scales = random.uniform(0.02, 0.06, (outputs * inputs // 32, 1)).astype(np.float16)
        weights = random.integers(0, 16, (len(scales), 32), dtype=np.uint8)
        halves = weights[:, :16] | weights[:, 16:] << 4
        written[name] = b"".join(
            s.tobytes() + h.tobytes() for s, h in zip(scales, halves, strict=True)
        )
        tensors[name] = ((weights.astype(np.float32) - 8) * scales).reshape(outputs, inputs)

    def add_floats(name: str, *shape: int) -> None:
        tensors[name] = random.normal(0.5, 0.3, shape).astype(np.float32)
        written[name] = tensors[name].tobytes()

    add_matrix("emb.word", SHAPE.words, SHAPE.hidden)
    add_floats("emb.pos", SHAPE.positions, SHAPE.hidden)
    add_floats("emb.type", SHAPE.types, SHAPE.hidden)
    for name, (outputs, inputs) in _sizes().items():
        add_matrix(f"{name}.w", outputs, inputs)
        add_floats(f"{name}.b", outputs)
    for norm in (
        "emb.ln",
        *(f"l{n}.{each}" for n in range(SHAPE.layers) for each in ("aln", "oln")),
    ):
        add_floats(f"{norm}.w", SHAPE.hidden)
        add_floats(f"{norm}.b", SHAPE.hidden)
    return _written(tensors, written), tensors


def _written(tensors: dict[str, NDArray[np.float32]], written: dict[str, bytes]) -> bytes:
    spelled = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, spelled)], dtype=np.uint32)
    letters = b"".join(spelled)
    head = b"E5S1" + struct.pack(
        "<I7ifi5iQ", 1, *SHAPE, EPSILON, 32, len(PIECES), 0, 2, 1, UNKNOWN, len(letters)
    )
    head += ends.tobytes() + np.linspace(0, -1, len(PIECES), dtype=np.float32).tobytes() + letters
    head += struct.pack("<iI", 1, 5) + struct.pack("<IB", 7, 0)
    size = len(head) + 4 + sum(2 + len(name) + 21 for name in tensors)
    entries, data = struct.pack("<i", len(tensors)), b""
    for name, values in tensors.items():
        entries += struct.pack("<H", len(name)) + name.encode()
        entries += struct.pack("<BIQQ", 0, values.size, size + len(data), len(written[name]))
        data += written[name]
    return head + entries + data


def _expected(tensors: dict[str, NDArray[np.float32]], ids: list[int]) -> NDArray[np.float64]:
    def norm(states: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        apart = states - states.mean(-1, keepdims=True)
        scaled = apart / np.sqrt((apart**2).mean(-1, keepdims=True) + EPSILON)
        normed: NDArray[np.float64] = scaled * tensors[f"{name}.w"] + tensors[f"{name}.b"]
        return normed

    def product(states: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = tensors[f"{name}.w"].T.astype(np.float64)
        return states @ weights + tensors[f"{name}.b"]

    states = tensors["emb.word"][ids] + tensors["emb.pos"][: len(ids)] + tensors["emb.type"][0]
    states = norm(states.astype(np.float64), "emb.ln")
    width = SHAPE.hidden // SHAPE.heads
    for layer in (f"l{n}" for n in range(SHAPE.layers)):
        query, key, value = (product(states, f"{layer}.{each}") for each in "qkv")
        mixed = []
        for head in (slice(n * width, (n + 1) * width) for n in range(SHAPE.heads)):
            weights = np.exp(query[:, head] @ key[:, head].T / sqrt(width))
            mixed.append(weights / weights.sum(-1, keepdims=True) @ value[:, head])
        states = norm(states + product(np.hstack(mixed), f"{layer}.ao"), f"{layer}.aln")
        inner = product(states, f"{layer}.fi")
        inner *= (1 + np.vectorize(erf)(inner / sqrt(2))) / 2
        states = norm(states + product(inner, f"{layer}.fo"), f"{layer}.oln")
    return states


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / GRAPH_FILE).parent.mkdir()
    write_model(read_packed(_packed_file()[0]), tmp_path)
    return tmp_path


def test_packed_matrix_has_its_weights() -> None:
    data, tensors = _packed_file()
    model: PackedModel = read_packed(data)

    assert model.shape == SHAPE
    assert [piece for piece, _ in model.pieces] == PIECES
    np.testing.assert_array_equal(model.matrix("l1.fi.w").T, tensors["l1.fi.w"])


@pytest.mark.parametrize("padding", [0, 3])
def test_converted_graph_has_the_states_of_its_network(folder: Path, padding: int) -> None:
    ids = [0, 4, 5, 5, 2]
    given = np.array([ids + [1] * padding])
    mask = np.array([[1] * len(ids) + [0] * padding])

    session = open_session(folder / GRAPH_FILE, 1)
    (states,) = session.run(None, {"input_ids": given, "attention_mask": mask})

    np.testing.assert_allclose(states[0, : len(ids)], _expected(_packed_file()[1], ids), atol=2e-4)


def test_conversion_gives_the_same_graph_each_time(folder: Path, tmp_path: Path) -> None:
    before = (folder / GRAPH_FILE).read_bytes()

    write_model(read_packed(_packed_file()[0]), tmp_path)

    assert (folder / GRAPH_FILE).read_bytes() == before


@pytest.mark.parametrize("text", ["ab", " ab", "\uff41b", "a\x02b", "\tab"])
def test_packed_tokenizer_reads_forms_of_one_text(folder: Path, text: str) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    assert tokenizer.encode(text).ids == [0, 4, 5, 2]


def test_packed_tokenizer_marks_unknown_tokens(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    assert tokenizer.encode("b").ids == [0, UNKNOWN, 5, 2]


def test_another_file_of_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / packed_e5.FILE).write_bytes(_packed_file()[0])
    monkeypatch.setattr(packed_e5, "packaged_file", lambda: tmp_path / packed_e5.FILE)

    with pytest.raises(DependencyError, match="expected 1571fc98"):
        packed_e5.write_packaged(tmp_path)
    assert not (tmp_path / GRAPH_FILE).exists()


# ---------------------------------------------------------------- windows


BUDGET = 64


def test_padding_is_at_the_right_and_masked() -> None:
    ids, mask = padded([[5, 6], [7]])

    assert ids.tolist() == [[5, 6], [7, 0]]
    assert mask.tolist() == [[1, 1], [1, 0]]


@given(st.lists(st.integers(1, 100), max_size=30))
def test_batches_grow_longer_within_their_budget(lengths: list[int]) -> None:
    batches = [*batches_by_length(lengths, BUDGET)]

    order = [place for batch in batches for place in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[place] for place in order] == sorted(lengths)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[each] for each in batch) <= BUDGET


def test_rows_of_unit_length_follow_the_windows() -> None:
    def run(batch: Sequence[TokenIds]) -> NDArray[np.float32]:
        return np.array([[window[0], window[1], 7] for window in batch], np.float32)

    made = encode_by_length([[3, 4, 1], [8, 6]], run, 2, BUDGET)

    np.testing.assert_allclose(made, [[0.6, 0.8], [0.8, 0.6]], rtol=1e-6)
