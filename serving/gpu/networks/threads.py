"""The threads of torch on the host."""

from __future__ import annotations

import torch


def use_threads(device: str, threads: int) -> None:
    """Sets the threads of a pass on the CPU, for this thread and those that use torch later.

    For another device the number is left alone: it is a guard of compiled code, which a thread with
    another number would compile again in the middle of a question.
    """
    if device.startswith("cpu"):
        torch.set_num_threads(threads)
