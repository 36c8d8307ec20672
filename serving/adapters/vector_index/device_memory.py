"""How much memory of a GPU torch may still take."""

from __future__ import annotations

import torch


def free_device_bytes(device: torch.device) -> int:
    """What nobody has of a CUDA device, and what torch has of it and does not use.

    What lies unused in the pool of cuVS is not among them: only cuVS can tell, and it does so by
    refusing what does not fit.
    """
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + unused)
