"""A replica's share of a GPU: where Ray puts it, how much memory it may take, how it is watched."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from serving.config import IndexSettings, Settings

logger = logging.getLogger(__name__)

CPUS = 0.1
"""What each replica asks of Ray's CPUs, of which a node has as many as it says."""

HEALTH_CHECK_PERIOD_S = 1.0
"""How often Serve asks a replica that may lose its device how it is. So soon at the latest it sees
that the process has ended, and starts another; ten times as late by default."""


def resources(gpu_share: float) -> dict[str, Any]:
    """The options of a deployment's replicas, as Ray takes them."""
    return {"num_cpus": CPUS, "num_gpus": gpu_share}


class Cuda(Protocol):
    """What is asked of `torch.cuda`."""

    def is_available(self) -> bool:
        """Whether there is a device."""
        ...

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        """Caps what torch allocates on the current device."""
        ...


def share_of_index(settings: Settings) -> float:
    """The share of a GPU that the process of the index has; 0 if it has none of its own."""
    gpus = settings.serve.gpus
    of_placement = {"fused": gpus.fusion, "split": gpus.index, "gpu": gpus.embedder}
    return of_placement[settings.serve.placement]


def left_by_lists(share: float, index: IndexSettings) -> float:
    """What of a share of a GPU is torch's, beside the lists of an index in the same process.

    Of a whole GPU it is all: nobody else is there from whom it could be taken.
    """
    has_lists = index.device != "cpu" and index.kind != "exact"
    return share * (1 - index.lists_share) if has_lists and share < 1 else share


def cap_gpu_memory(share: float, cuda: Cuda | None = None) -> None:
    """Keeps this process to its share of the memory of the GPU that Ray has given it.

    Ray packs replicas whose shares fit onto one GPU and leaves the memory to them: the first to
    grow takes it from the others. The cap is on what torch allocates; what CUDA itself takes in
    each process, about half a GiB, comes on top of it. A replica that has a GPU to itself, or
    none, is not capped.

    Args:
        share: From 0 to 1.
        cuda: That of torch, if it is not given.
    """
    if not 0 < share < 1:
        return
    cuda = cuda or _of_torch()
    if not cuda.is_available():
        logger.warning("a share of a GPU was given, and torch finds none", extra={"share": share})
        return
    cuda.set_per_process_memory_fraction(share)


def _of_torch() -> Cuda:
    # Here, since a start that needs no GPU does not wait for it.
    import torch

    return torch.cuda
