"""Which of the encoders runs a checkpoint fastest on this machine.

Imports none of them, so that it can be asked without loading torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from serving.adapters.encoder.checkpoint import Checkpoint
from serving.domain.errors import DependencyError
from serving.models.errors import CheckpointError
from serving.models.precision import QUANTIZED, Attention, Precision
from serving.models.qwen3_architecture import Qwen3Architecture


def choose_backend(
    backend: str, device: str, checkpoint: Checkpoint, precision: str = "auto"
) -> str:
    """The encoder to use: "onnx", "bfloat16", "qwen3" or "torch".

    Args:
        backend: One of these, which is then used, or "auto".
        device: Where it is to run, as torch names it; only "qwen3" and "torch" run off the CPU.
        checkpoint: What it is to run.
        precision: Of its arithmetic; if it is not "auto", "qwen3" and "torch" alone have it.
    """
    if backend != "auto":
        return backend
    if is_plain_qwen3(checkpoint):
        return "qwen3"
    if device != "cpu" or precision != "auto":
        return "torch"
    return "bfloat16" if cpu_multiplies_bfloat16() and is_plain_bert(checkpoint) else "onnx"


def choose_precision(
    precision: Precision | Literal["auto"], device: str, backend: str
) -> Precision:
    """The precision of "qwen3" or "torch" on a device: the one named, unless that is "auto".

    An accelerator computes a Qwen3 in bfloat16, in which it was trained. Through "torch" it is
    float32, since such models are small, and share their fingerprint with the CPU's encoders.

    Raises:
        DependencyError: The one named is not for what that backend runs.
    """
    if precision in QUANTIZED and backend != "qwen3":
        why = f"precision {precision} is for a Qwen3 alone, and this model is run by {backend}"
        raise DependencyError("embedder", why)
    if precision != "auto":
        return precision
    return "bfloat16" if backend == "qwen3" and device != "cpu" else "float32"


def require_attention(attention: Attention, backend: str) -> None:
    """Refuses an attention that a backend has not.

    Raises:
        DependencyError: It is "varlen", and the backend is not "qwen3".
    """
    if attention == "varlen" and backend != "qwen3":
        why = f"attention varlen is for a Qwen3 alone, and this model is run by {backend}"
        raise DependencyError("embedder", why)


def cpu_multiplies_bfloat16() -> bool:
    """Whether this CPU has matrix instructions for bfloat16; without them, use ONNX Runtime."""
    flags = Path("/proc/cpuinfo")
    return flags.is_file() and "amx_bf16" in flags.read_text()


def is_plain_bert(checkpoint: Checkpoint) -> bool:
    """Whether `bert_encoder` can run the checkpoint."""
    config = checkpoint.architecture
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("is_decoder", False)
        and checkpoint.pooling in ("mean", "cls")
        and _is_pooled_alone(checkpoint)
    )


def is_plain_qwen3(checkpoint: Checkpoint) -> bool:
    """Whether `qwen3_encoder` can run the checkpoint."""
    try:
        Qwen3Architecture.read(checkpoint.architecture)
    except CheckpointError:
        return False
    return is_last_token_pooled(checkpoint)


def is_last_token_pooled(checkpoint: Checkpoint) -> bool:
    """Whether a text's vector is the state of its last token, at most brought to unit length."""
    return checkpoint.pooling == "lasttoken" and _is_pooled_alone(checkpoint)


def _is_pooled_alone(checkpoint: Checkpoint) -> bool:
    """Whether nothing changes the direction of what is pooled."""
    return checkpoint.modules in (
        ("Transformer", "Pooling"),
        ("Transformer", "Pooling", "Normalize"),
    )
