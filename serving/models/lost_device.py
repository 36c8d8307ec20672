"""Whether a device still does anything."""

from __future__ import annotations

import torch


def works(device: str) -> bool:
    """Asks a device to finish what it was asked to do, and whether it could.

    What an error says does not tell whether it stays. torch raises `AcceleratorError` for an error
    of CUDA's own, and a plain `RuntimeError` for one of cuBLAS or cuDNN, and after either the
    process may go on or not. After one that stays (an illegal address, an assertion of a kernel,
    a launch that timed out, an uncorrectable error of memory) every call fails, this one too.

    Args:
        device: As torch names it. One that is no accelerator always works.
    """
    kind = torch.device(device).type
    if kind == "cpu":
        return True
    try:
        torch.accelerator.synchronize(torch.device(device))
    except RuntimeError:
        return False
    return True
