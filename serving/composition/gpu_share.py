"""A replica's share of a GPU: its Ray resources, its memory cap, its health check."""

from __future__ import annotations

import logging
from typing import Any

from serving.config.settings import IndexSettings

logger = logging.getLogger(__name__)

CPUS = 0.1
"""The Ray CPUs of a replica; Ray uses them for placement only."""

HEALTH_CHECK_PERIOD_S = 1.0
"""Period of Serve's health checks of a replica that may lose its device, and so of the replacement
of an ended process. The default is ten times as long."""


def resources(gpu_share: float) -> dict[str, Any]:
    """Returns the Ray options of a deployment's replicas."""
    return {"num_cpus": CPUS, "num_gpus": gpu_share}


def left_by_lists(share: float, index: IndexSettings) -> float:
    """Returns torch's part of a GPU share, next to the lists of an index in the same process.

    Of a whole GPU it is all, since there is no other replica to protect.
    """
    has_lists = index.device != "cpu" and index.kind != "exact"
    return share * (1 - index.lists_share) if has_lists and share < 1 else share


def cap_gpu_memory(share: float) -> None:
    """Caps the GPU memory of this process at its share.

    Ray places replicas whose shares fit onto one GPU but does not limit their memory. The cap
    applies to torch's allocations; the CUDA context of each process, about half a GiB, is not
    included. A replica with a whole GPU, or none, is not capped.
    """
    if not 0 < share < 1:
        return
    # Imported here because a start without a GPU should not wait for it.
    from torch import cuda

    if not cuda.is_available():
        logger.warning("GPU share configured, but torch finds no GPU", extra={"share": share})
        return
    cuda.set_per_process_memory_fraction(share)
