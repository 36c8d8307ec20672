from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from serving.composition.gpu_share import cap_gpu_memory, left_by_lists
from serving.config.settings import load_settings


class NotedCuda:
    """Notes the cap that it is given."""

    def __init__(self) -> None:
        self.available = True
        self.fractions: list[float] = []

    def is_available(self) -> bool:
        return self.available

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        self.fractions.append(fraction)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> NotedCuda:
    """That of torch, whether it is installed or not."""
    cuda = NotedCuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return cuda


@pytest.mark.parametrize(("share", "caps"), [(0.4, [0.4]), (0.0, []), (1.0, [])])
def test_part_of_a_gpu_caps_its_memory(cuda: NotedCuda, share: float, caps: list[float]) -> None:
    cap_gpu_memory(share)

    assert cuda.fractions == caps


def test_share_of_a_missing_gpu_is_logged(
    cuda: NotedCuda, caplog: pytest.LogCaptureFixture
) -> None:
    cuda.available = False

    with caplog.at_level(logging.WARNING):
        cap_gpu_memory(0.4)

    assert cuda.fractions == []
    assert "torch finds no GPU" in caplog.text


@pytest.mark.parametrize(
    ("index", "share", "left"),
    [
        ({"device": "cpu"}, 0.4, 0.4),
        ({"device": "cuda", "kind": "exact"}, 0.4, 0.4),
        ({"device": "cuda"}, 0.4, 0.2),
        ({"device": "cuda", "lists_share": 0.75}, 0.4, 0.1),
        ({"device": "cuda"}, 1, 1),  # of a whole GPU torch takes what it likes
    ],
)
def test_lists_on_a_gpu_take_their_part_of_a_share(
    index: dict[str, object], share: float, left: float
) -> None:
    assert left_by_lists(share, load_settings({"index": index}).index) == pytest.approx(left)


@pytest.mark.parametrize(
    ("placement", "part"),
    [
        ("single", "embedder"),
        ("single", "index"),
        ("single", "reranker"),
        ("split", "ingress"),
        ("gpu", "ingress"),
        ("gpu", "index"),
    ],
)
def test_a_share_for_what_the_placement_runs_elsewhere_is_refused(
    placement: str, part: str
) -> None:
    with pytest.raises(ValidationError, match=rf"gpus\.{part}: models run elsewhere"):
        load_settings({"serve": {"placement": placement, "gpus": {part: 0.5}}})


def test_more_than_a_whole_gpu_is_refused() -> None:
    with pytest.raises(ValidationError, match="less than or equal to 1"):
        load_settings({"serve": {"placement": "gpu", "gpus": {"embedder": 2}}})
