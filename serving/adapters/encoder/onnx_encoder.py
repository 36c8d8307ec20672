"""A sentence encoder in ONNX Runtime on the CPU, in float32 or quantized to int8.

An int8 graph is quantized once from the checkpoint's float32 graph, and cached by the model's
fingerprint with the float32 vectors of the probe texts. Each start embeds the probes and rejects a
graph whose vectors differ too much.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.adapters.encoder.probes import PADDED_TOKENS, probe_windows, require_close
from serving.adapters.encoder.published import publish
from serving.adapters.encoder.token_states import StateReader
from serving.adapters.encoder.windows import (
    WindowEncoder,
    batches_by_length,
    padded,
    unit_prefixes,
)
from serving.adapters.onnx_session import open_session
from serving.domain.errors import DependencyError
from serving.domain.soundness import sound_rows
from serving.ports.embedding import (
    Device,
    Embedding,
    EmbeddingModel,
    StatedVector,
    TokenIds,
    TokenStates,
    VectorLike,
    Vectors,
)

logger = logging.getLogger(__name__)

INT8 = "onnx-int8.1"
"""Part of the fingerprint of an int8 model; the number is incremented when `_quantize` changes
its output."""

MODEL_FILE = "model.onnx"
PROBE_FILE = "probe.npy"
PROBES = 2
"""Incremented when the texts change of which the folder of an int8 graph has the vectors."""

OnnxPrecision = Literal["float32", "int8"]

Pool = Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.float32]]
"""States (n, longest, hidden) and their mask (n, longest) to rows (n, hidden)."""


class OnnxEncoder(WindowEncoder):
    """A `TextEncoder` over ONNX Runtime, of a checkpoint with a graph, with vectors as arrays.

    int8 graphs are cached in `cache_dir`, and that precision is part of the model's fingerprint.
    With one thread for a forward pass, the other cores are left to the rest of the service, and a
    query takes the least CPU time.

    Raises:
        DependencyError: The graph cannot be loaded, or the vectors of the int8 graph differ.
    """

    def __init__(
        self,
        checkpoint: EncoderCheckpoint,
        cache_dir: Path,
        *,
        precision: OnnxPrecision = "float32",
        threads: int = 1,
    ) -> None:
        assert checkpoint.graph is not None, "the checkpoint has no graph; this is a bug"
        is_int8 = precision == "int8"
        super().__init__(checkpoint, in_int8(checkpoint.model) if is_int8 else None)
        # The scale of int8 activations is that of a whole pass: a row would depend on the others.
        self._pass_tokens = 1 if is_int8 else PADDED_TOKENS
        folder = _quantized_once(checkpoint, cache_dir) if is_int8 else None
        graph = checkpoint.graph if folder is None else folder / MODEL_FILE
        self._session = _open_session(graph, threads)
        self._states = StateReader.of(checkpoint)
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._output = self._session.get_outputs()[0].name
        self._pool = _pooling(checkpoint)
        if folder is not None:
            made = self.encode(probe_windows(self))
            require_close(made, np.load(folder / PROBE_FILE))

    def device(self) -> Device:
        return Device(is_accelerator=False, token_budget=PADDED_TOKENS)

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        return self._encode(windows)[0]

    def encode_documents(self, windows: Sequence[TokenIds]) -> Embedding:
        vectors, states = self._encode(windows)
        if self._states is None:
            return Embedding(vectors)
        return Embedding(vectors, tuple(map(self._states.stored, states)))

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[VectorLike | None]:
        vectors, states = self._encode(windows)
        rows = sound_rows(vectors)
        if self._states is None:
            return [*rows]
        name = self._states.name
        return [
            StatedVector(row.copy(), its, name) if row is not None and len(its) else row
            for row, its in zip(rows, states, strict=True)
        ]

    def _encode(self, windows: Sequence[TokenIds]) -> tuple[Vectors, list[TokenStates]]:
        """The vectors, and the token states of each window; of none without axes."""
        vectors = np.empty((len(windows), self._model.dimension), np.float32)
        found: dict[int, TokenStates] = {}
        for batch in batches_by_length([len(window) for window in windows], self._pass_tokens):
            states, mask = self.last_states([windows[number] for number in batch])
            vectors[batch] = unit_prefixes(self._pool(states, mask), self._model.dimension)
            if self._states is not None:
                for number, of_window in zip(batch, states, strict=True):
                    found[number] = self._states.read(of_window, windows[number])
        return vectors, [found[number] for number in sorted(found)]

    def last_states(
        self, windows: Sequence[TokenIds]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The states of the last layer (n, longest, hidden), and their mask (n, longest)."""
        ids, mask = padded(windows)
        given = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self._inputs:
            given["token_type_ids"] = np.zeros_like(ids)
        (states,) = self._session.run([self._output], given)
        return states, mask


def in_int8(model: EmbeddingModel) -> EmbeddingModel:
    """The model with int8 products; its vectors do not compare with those of float32."""
    return replace(model, fingerprint=f"{model.fingerprint}-{INT8}")


def quantized_folder(checkpoint: EncoderCheckpoint, cache_dir: Path) -> Path:
    """The cache folder of a checkpoint's int8 graph."""
    return cache_dir / "onnx" / f"{in_int8(checkpoint.model).fingerprint}-{PROBES}"


def _quantized_once(checkpoint: EncoderCheckpoint, cache_dir: Path) -> Path:
    """Quantizes the graph unless it is cached; its folder gets its name when it is complete."""
    folder = quantized_folder(checkpoint, cache_dir)
    if folder.is_dir():
        return folder
    logger.info("quantizing the encoder", extra={"fingerprint": checkpoint.model.fingerprint})
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        float32 = OnnxEncoder(checkpoint, cache_dir)
        np.save(draft / PROBE_FILE, float32.encode(probe_windows(float32)))
        assert checkpoint.graph is not None
        _quantize(checkpoint.graph, draft / MODEL_FILE)
        # If another process was first, its folder is equivalent.
        publish(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _quantize(graph: Path, quantized: Path) -> None:
    """Writes the quantized graph; takes 2 to 4 s of CPU for 6 to 12 layers.

    Only matrix products are quantized, with a scale for each output channel. With one scale for a
    whole matrix, or with the embeddings quantized too, recall drops (docs/encoder.md). Weights use
    7 of the 8 bits: on processors without VNNI instructions the sum of two full products
    overflows, so vectors would depend on the processor.
    """
    # Imported late: only the first start needs the tools of ONNX.
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.quant_utils import add_pre_process_metadata

    model = onnx.load(graph)
    # Otherwise it warns that shapes may be unknown, though it infers them itself.
    add_pre_process_metadata(model)
    quantize_dynamic(
        model,
        quantized,
        per_channel=True,
        reduce_range=True,
        op_types_to_quantize=["MatMul", "Gemm"],
        weight_type=QuantType.QInt8,
        # Of operators that ONNX does not define, whose outputs have no known type.
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


def _pooling(checkpoint: EncoderCheckpoint) -> Pool:
    if checkpoint.pooling not in _POOLINGS:
        why = f"the pooling {checkpoint.pooling!r} of the ONNX graph is not supported"
        raise DependencyError("embedder", why)
    return _POOLINGS[checkpoint.pooling]


def _mean_states(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    present = mask[..., None].astype(np.float32)
    rows: NDArray[np.float32] = (states * present).sum(axis=1) / present.sum(axis=1)
    return rows


_POOLINGS: dict[str, Pool] = {"cls": lambda states, _: states[:, 0], "mean": _mean_states}


def _open_session(graph: Path, threads: int) -> onnxruntime.InferenceSession:
    try:
        return open_session(graph, threads)
    except Exception as error:
        why = f"the ONNX graph cannot be loaded ({type(error).__name__}); remove it"
        raise DependencyError("embedder", why) from error
