from __future__ import annotations

import logging

import pytest
from pydantic import ValidationError

from serving.config import load_settings
from serving.deployments.gpu_share import cap_gpu_memory


class NotedCuda:
    """Notes the cap that it is given."""

    def __init__(self, *, available: bool = True) -> None:
        self._available = available
        self.fractions: list[float] = []

    def is_available(self) -> bool:
        return self._available

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        self.fractions.append(fraction)


def test_a_replica_that_shares_a_gpu_takes_no_more_memory_than_its_share() -> None:
    cuda = NotedCuda()

    cap_gpu_memory(0.4, cuda)

    assert cuda.fractions == [0.4]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_one_that_has_none_or_a_whole_one_is_not_capped(share: float) -> None:
    cuda = NotedCuda()

    cap_gpu_memory(share, cuda)

    assert cuda.fractions == []


def test_a_share_of_a_gpu_that_is_not_there_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cuda = NotedCuda(available=False)

    with caplog.at_level(logging.WARNING):
        cap_gpu_memory(0.4, cuda)

    assert cuda.fractions == []
    assert "torch finds none" in caplog.text


@pytest.mark.parametrize(
    ("placement", "part"),
    [("fused", "embedder"), ("fused", "reranker"), ("split", "fusion"), ("gpu", "fusion")],
)
def test_a_share_for_what_the_placement_runs_elsewhere_is_refused(
    placement: str, part: str
) -> None:
    with pytest.raises(ValidationError, match=rf"gpus\.{part}: models run elsewhere"):
        load_settings({"serve": {"placement": placement, "gpus": {part: 0.5}}})


def test_more_than_a_whole_gpu_is_refused() -> None:
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        load_settings({"serve": {"placement": "gpu", "gpus": {"embedder": 2}}})
