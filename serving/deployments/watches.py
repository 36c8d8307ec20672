"""What watches over the devices of a process."""

from __future__ import annotations

from functools import partial

from serving.deployments.process_end import end_process_soon
from serving.pipeline.device_loss import DeviceWatch


def watch_over(name: str, device: str) -> DeviceWatch:
    """Watches over one part of this process, which ends when its device is lost.

    Args:
        name: The part: "embedder", "index" or "reranker".
        device: Where it is computed, as torch names it.
    """
    return DeviceWatch(name, partial(_is_lost, device), end_process_soon)


def _is_lost(device: str, error: Exception) -> bool:
    # Here, since a start that needs no torch does not wait for it.
    from serving.adapters.vector_index.errors import DeviceLostError
    from serving.models.lost_device import works

    return isinstance(error, DeviceLostError) or not works(device)
