"""How much GPU memory torch can still allocate."""

from __future__ import annotations

import torch


def free_device_bytes(device: str) -> int:
    """Unallocated bytes of a CUDA device, plus those that torch has reserved but does not use.

    Unused memory in the cuVS pool is not counted: cuVS offers no way to query it.
    """
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + unused)
