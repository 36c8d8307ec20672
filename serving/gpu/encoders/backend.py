"""The runtime of a checkpoint, and its precision. Imports no torch."""

from __future__ import annotations

from typing import Literal

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.domain.errors import DependencyError
from serving.gpu.networks.errors import CheckpointError
from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture

Backend = Literal["onnx", "qwen3", "torch"]


def backend_of(checkpoint: EncoderCheckpoint, device: str) -> Backend:
    """The runtime of a checkpoint: ONNX's for a graph, our network for a Qwen3, or torch.

    Raises DependencyError for an ONNX graph on a device that does not run it.
    """
    if checkpoint.graph is not None:
        if device != "cpu":
            why = f"an ONNX graph does not run on {device}; name the model by its Hugging Face id"
            raise DependencyError("embedder", why)
        return "onnx"
    return "qwen3" if is_plain_qwen3(checkpoint) else "torch"


def choose_precision(
    precision: Precision | Literal["auto", "int8"], device: str, backend: Backend
) -> Precision | Literal["int8"]:
    """Resolves "auto".

    int8 for an ONNX graph; bfloat16 for "qwen3" on an accelerator, in which Qwen3 was trained; else
    float32. The choice does not depend on the processor, because all replicas of a service must
    make vectors that compare. Raises DependencyError if the backend does not support the precision.
    """
    if backend == "onnx":
        if precision not in ("auto", "float32", "int8"):
            why = f"precision {precision} is not for ONNX Runtime, which has float32 and int8"
            raise DependencyError("embedder", why)
        return "float32" if precision == "float32" else "int8"
    if precision == "int8":
        why = f"precision int8 is for an ONNX graph, and this model is run by {backend}"
        raise DependencyError("embedder", why)
    if precision != "auto":
        return precision
    return "bfloat16" if backend == "qwen3" and device != "cpu" else "float32"


def is_plain_qwen3(checkpoint: EncoderCheckpoint) -> bool:
    """Whether `qwen3_encoder` can run the checkpoint."""
    try:
        Qwen3Architecture.read(checkpoint.architecture)
    except CheckpointError:
        return False
    return is_last_token_pooled(checkpoint)


def is_last_token_pooled(checkpoint: EncoderCheckpoint) -> bool:
    """Whether a vector is the state of the last token, normalised or not, and nothing else."""
    return checkpoint.pooling == "lasttoken" and checkpoint.modules in (
        ("Transformer", "Pooling"),
        ("Transformer", "Pooling", "Normalize"),
    )
