"""Checks whether a device still works after an error."""

from __future__ import annotations


def works(device: str) -> bool:
    """Synchronises with a device, and returns whether that succeeded.

    The error itself does not say whether it is permanent. torch raises `AcceleratorError` for
    CUDA errors and a plain `RuntimeError` for those of cuBLAS or cuDNN, and either may be
    transient. After a permanent one (illegal address, kernel assertion, launch timeout,
    uncorrectable memory error) every call fails, including this one.

    Args:
        device: As torch names it. A CPU always works.
    """
    if device.startswith("cpu"):
        return True
    # Imported here because a desk has no torch.
    import torch

    try:
        torch.accelerator.synchronize(torch.device(device))
    except RuntimeError:
        return False
    return True
