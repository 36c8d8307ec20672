"""Chooses the fastest encoder for a checkpoint on this machine.

It imports none of them, so choosing does not load torch.
"""

from __future__ import annotations

from typing import Literal

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.domain.errors import DependencyError
from serving.gpu.networks.errors import CheckpointError
from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture


def choose_backend(
    backend: str, device: str, checkpoint: EncoderCheckpoint, precision: str = "auto"
) -> str:
    """The encoder to use: "onnx", "qwen3" or "torch".

    Args:
        backend: One of these, which is returned as it is, or "auto".
        device: As torch names it; only "qwen3" and "torch" support others than the CPU.
        checkpoint: What to run.
        precision: Of the arithmetic; "auto", or as `choose_precision` supports it.

    Raises:
        DependencyError: The checkpoint is an ONNX graph, and torch would have to run it.
    """
    if checkpoint.graph is not None:
        if backend not in ("auto", "onnx") or device != "cpu":
            why = (
                f"an ONNX graph has no weights for the backend {backend} on {device}; name the "
                "model by its Hugging Face id"
            )
            raise DependencyError("embedder", why)
        return "onnx"
    if backend != "auto":
        return backend
    if is_plain_qwen3(checkpoint):
        return "qwen3"
    runs_in_onnx = device == "cpu" and precision in ("auto", "float32", "int8")
    return "onnx" if runs_in_onnx else "torch"


def choose_precision(
    precision: Precision | Literal["auto", "int8"],
    device: str,
    backend: str,
    *,
    from_graph: bool = False,
) -> Precision | Literal["int8"]:
    """Resolves "auto".

    int8 for a ready ONNX graph, which was published for CPUs; bfloat16 for "qwen3" on an
    accelerator, in which Qwen3 was trained; else float32. Models run by "torch" are small, and
    in float32 they share their fingerprint with the CPU encoders. The choice does not depend on
    the processor, because all replicas of a service must make vectors that compare.

    Raises:
        DependencyError: The backend does not support the precision.
    """
    if backend == "onnx":
        if precision not in ("auto", "float32", "int8"):
            why = f"precision {precision} is not for ONNX Runtime, which has float32 and int8"
            raise DependencyError("embedder", why)
    elif precision == "int8":
        why = f"precision int8 is for ONNX Runtime, and this model is run by {backend}"
        raise DependencyError("embedder", why)
    if precision != "auto":
        return precision
    if backend == "onnx" and from_graph:
        return "int8"
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
