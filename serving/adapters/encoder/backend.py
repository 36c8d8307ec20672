"""Which of the encoders runs a checkpoint fastest on this machine.

Imports none of them, so that it can be asked without loading torch.
"""

from __future__ import annotations

from pathlib import Path

from serving.adapters.encoder.checkpoint import Checkpoint


def choose_backend(backend: str, device: str, checkpoint: Checkpoint) -> str:
    """The encoder to use: "onnx", "bfloat16" or "torch".

    Args:
        backend: One of these, which is then used, or "auto".
        device: Where it is to run, as torch names it; only torch runs off the CPU.
        checkpoint: What it is to run.
    """
    if backend != "auto":
        return backend
    if device != "cpu":
        return "torch"
    return "bfloat16" if cpu_multiplies_bfloat16() and is_plain_bert(checkpoint) else "onnx"


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
        and checkpoint.modules
        in (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
    )
