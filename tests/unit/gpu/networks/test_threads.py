"""The threads of torch: those of a pass on the CPU are set, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from serving.gpu.networks.threads import use_threads


@pytest.fixture
def before() -> Iterator[int]:
    threads = torch.get_num_threads()
    yield threads
    torch.set_num_threads(threads)


def test_threads_of_a_cpu_are_set(before: int) -> None:
    use_threads("cpu", before + 1)

    assert torch.get_num_threads() == before + 1


def test_threads_of_another_device_are_left(before: int) -> None:
    use_threads("cuda:0", before + 1)

    assert torch.get_num_threads() == before
