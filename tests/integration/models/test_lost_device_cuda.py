"""Transient and permanent CUDA errors, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

ASSERTION_OF_A_KERNEL = "torch.zeros(4, device='cuda')[torch.tensor([9], device='cuda')].cpu()"
WANT_OF_MEMORY = "torch.empty(1 << 50, device='cuda')"
ANOTHER_SHAPE = "torch.zeros(2, 3, device='cuda') @ torch.zeros(2, 3, device='cuda')"


@pytest.mark.parametrize(
    ("fault", "goes_on"),
    [(ASSERTION_OF_A_KERNEL, False), (WANT_OF_MEMORY, True), (ANOTHER_SHAPE, True)],
)
def test_only_a_lasting_error_means_lost_device(fault: str, goes_on: bool) -> None:
    script = textwrap.dedent(
        f"""
        import torch
        from serving.composition.gpu import device_works
        torch.zeros(1, device="cuda").cpu()
        assert device_works("cuda")
        try:
            {fault}
        except RuntimeError:
            print(device_works("cuda"))
        """
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout.strip() == str(goes_on), done.stderr
