"""Where variable-length attention is supported, checked without a device."""

from __future__ import annotations

import pytest
import torch

from serving.models import varlen
from serving.models.errors import AttentionError
from serving.models.varlen import require_varlen

CUDA = torch.device("cuda")


def test_a_cpu_attends_row_by_row_in_any_numbers() -> None:
    require_varlen(torch.device("cpu"), torch.float32)


def test_the_kernel_of_this_torch_is_the_one_that_is_called() -> None:
    require_varlen(CUDA, torch.bfloat16)


def test_another_device_than_cuda_is_refused() -> None:
    with pytest.raises(AttentionError, match="not for mps"):
        require_varlen(torch.device("mps"), torch.bfloat16)


def test_numbers_that_the_kernel_has_not_are_refused() -> None:
    with pytest.raises(AttentionError, match="no float32"):
        require_varlen(CUDA, torch.float32)


def test_a_torch_whose_kernel_takes_other_arguments_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(varlen, "ARGUMENTS", {"is_causal"})
    with pytest.raises(AttentionError, match=f"not in torch {torch.__version__.split('+')[0]}"):
        require_varlen(CUDA, torch.bfloat16)
