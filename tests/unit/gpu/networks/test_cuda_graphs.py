"""The translation of out-of-memory errors; the graphs themselves are tested on a GPU."""

from __future__ import annotations

import pytest
import torch

from serving.gpu.networks.cuda_graphs import translated_memory_errors
from serving.gpu.networks.errors import DeviceMemoryError

CUDA = torch.device("cuda:1")


def fail_twice() -> None:
    """Raises like a capture that runs out of memory and then cannot be ended."""
    try:
        raise torch.OutOfMemoryError("CUDA out of memory.")
    finally:
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")


def test_out_of_memory_names_the_device() -> None:
    with (
        pytest.raises(DeviceMemoryError, match="of memory on cuda:1"),
        translated_memory_errors(CUDA),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_out_of_memory_survives_a_failing_capture_end() -> None:
    with pytest.raises(DeviceMemoryError), translated_memory_errors(CUDA):
        fail_twice()


def test_another_error_is_left_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="an illegal instr"), translated_memory_errors(CUDA):
        raise RuntimeError("CUDA error: an illegal instruction was encountered")
