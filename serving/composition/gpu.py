"""The only module that knows `serving.gpu`, and imports of it what the settings ask for.

A desk has no torch, and a start with a published model must not wait for it.
"""

from __future__ import annotations

import functools
import logging
import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal, Protocol

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.adapters.reranker.checkpoint import open_checkpoint as open_reranker_checkpoint
from serving.adapters.vector_index.lists.inverted_lists import ListsLibrary
from serving.config.settings import EmbedderSettings, RerankerSettings
from serving.domain.errors import DependencyError
from serving.gpu.encoders.backend import Backend, backend_of, choose_precision
from serving.gpu.networks.precision import Precision
from serving.ports.embedding import TextEncoder
from serving.ports.reranking import CrossEncoder

logger = logging.getLogger(__name__)


def missing_device(part: str, device: str, count: int) -> str | None:
    """A fault in the device of a part, where there are `count` of CUDA; None if there is none."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or int(number or 0) < count:
        return None
    found = f"{part}.device is {device}, and torch finds {count} CUDA devices"
    return f"{found}: see `nvidia-smi`, and docs/gpu.md#installing"


def require_device(part: str, device: str) -> None:
    """Raises DependencyError if torch does not find a CUDA device; imports torch for such alone."""
    if not device.startswith("cuda"):
        return
    import torch

    if fault := missing_device(part, device, torch.cuda.device_count()):
        raise DependencyError(part, fault)


def runtime_of(
    embedder: EmbedderSettings, checkpoint: EncoderCheckpoint
) -> tuple[Backend, Precision | Literal["int8"]]:
    """The runtime of an encoder, and its precision; DependencyError if settings contradict it."""
    backend = backend_of(checkpoint, embedder.device)
    return backend, choose_precision(embedder.precision, embedder.device, backend)


def open_encoder(
    embedder: EmbedderSettings, checkpoint: EncoderCheckpoint, cache_dir: Path
) -> TextEncoder:
    """Loads an encoder, which takes seconds; raises DependencyError if it cannot."""
    backend, chosen = runtime_of(embedder, checkpoint)
    if backend == "onnx":
        # Its import writes a file of telemetry into the temporary folder.
        from serving.adapters.encoder.onnx_encoder import OnnxEncoder

        return OnnxEncoder(
            checkpoint,
            cache_dir,
            precision="int8" if chosen == "int8" else "float32",
            threads=embedder.threads,
        )
    assert chosen != "int8", "no other backend has it; this is a bug"
    require_device("embedder", embedder.device)
    keep_compiled_code(cache_dir)
    if backend == "qwen3":
        from serving.gpu.encoders.qwen3_encoder import Qwen3Encoder

        return Qwen3Encoder(
            checkpoint, device=embedder.device, precision=chosen, threads=embedder.threads
        )
    from serving.gpu.encoders.torch_encoder import TorchEncoder

    return TorchEncoder(
        checkpoint, device=embedder.device, precision=chosen, threads=embedder.threads
    )


def keep_compiled_code(cache_dir: Path) -> None:
    """Has torch keep the kernels that it compiles, so the next start compiles none.

    Where the cache is read-only, as in an image, torch keeps them in the temporary folder.
    """
    folder = cache_dir / "torchinductor"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError:
        # torch makes its folder when its compiler is imported, and would end the replica.
        logger.info("compiled kernels are not kept", extra={"folder": str(folder)})
        return
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder))  # noqa: TID251


def open_cross_encoder(model: str, reranker: RerankerSettings, cache_dir: Path) -> CrossEncoder:
    """Loads a reranker, which takes seconds, or minutes; raises DependencyError if it cannot."""
    from serving.gpu.rerankers.torch_cross_encoder import TorchCrossEncoder

    require_device("reranker", reranker.device)
    keep_compiled_code(cache_dir)
    return TorchCrossEncoder(
        open_reranker_checkpoint(model, download=True),
        device=reranker.device,
        precision="float32" if reranker.device == "cpu" else "bfloat16",
        threads=reranker.threads,
    )


class LibraryOfGpu(ListsLibrary, Protocol):
    """A library of inverted lists on a GPU, whose kernels are compiled beforehand."""

    def warm_up(self, dimension: int) -> None:
        """Compiles every kernel that a search of this dimension may need."""


@functools.cache
def open_lists(device: str) -> LibraryOfGpu:
    """Returns the library that all indexes of this process share, so that calls take turns.

    Raises ListsError if it is not installed.
    """
    import torch

    from serving.gpu.cuvs_lists import CuvsLibrary

    return CuvsLibrary(torch.device(device))


def device_works(device: str) -> bool:
    """Synchronises with a device, and returns whether that succeeded; a CPU always works.

    The error itself does not say whether it is permanent. torch raises `AcceleratorError` for CUDA
    errors and a plain `RuntimeError` for those of cuBLAS or cuDNN, and either may be transient.
    After a permanent one (illegal address, kernel assertion, launch timeout, uncorrectable memory
    error) every call fails, including this one.
    """
    if device.startswith("cpu"):
        return True
    import torch

    try:
        torch.accelerator.synchronize(torch.device(device))
    except RuntimeError:
        return False
    return True
