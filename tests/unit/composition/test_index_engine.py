"""The index engine that the settings name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from serving.adapters.vector_index import ExactIndex, TieredIndex, arrays
from serving.adapters.vector_index.lists import CpuLibrary
from serving.adapters.vector_index.lists.inverted_lists import ListsError
from serving.composition.gpu import LibraryOfGpu
from serving.composition.index_engine import Gpus, engine_maker, tier_figures
from serving.config.settings import IndexSettings, load_settings
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemKind
from serving.ports.vector_index import IndexTier
from tests.fakes.meaning import segment_row
from tests.support.builders import TENANT, segment

DIMENSION = 8


class WarmLibrary(CpuLibrary):
    """The library of the CPU in the place of one of a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.warm_ups: list[int] = []

    def warm_up(self, dimension: int) -> None:
        self.warm_ups.append(dimension)


class TwoGpus(Gpus):
    """Two devices with a library of inverted lists, or with the error that it raises."""

    def __init__(self, failing: Exception | None = None) -> None:
        self._failing = failing
        self.opened: list[str] = []
        self.warm = WarmLibrary()

    def count(self) -> int:
        return 2

    def library(self, device: str) -> LibraryOfGpu:
        self.opened.append(device)
        if self._failing is not None:
            raise self._failing
        return self.warm


NOT_INSTALLED = ListsError("cuVS is not installed: `make install-gpu` installs it, see docs/gpu.md")


def on_gpu(gpus: Gpus, device: str = "cuda", **settings: Any) -> Any:
    return engine_maker(IndexSettings(device=device, **settings), DIMENSION, gpus=gpus)


def test_the_kind_chooses_the_engine() -> None:
    assert isinstance(engine_maker(IndexSettings(), 8)(), TieredIndex)
    assert isinstance(engine_maker(IndexSettings(kind="exact"), 8)(), ExactIndex)


def test_kernels_are_compiled_before_the_first_engine() -> None:
    gpus = TwoGpus()

    assert on_gpu(gpus, "cuda:1").func is TieredIndex
    assert (gpus.opened, gpus.warm.warm_ups) == (["cuda:1"], [DIMENSION])


def test_without_cuvs_every_vector_is_scanned(caplog: pytest.LogCaptureFixture) -> None:
    assert on_gpu(TwoGpus(NOT_INSTALLED)).func is ExactIndex
    [record] = caplog.records
    assert record.__dict__["reason"] == str(NOT_INSTALLED)


@pytest.mark.parametrize("failing", [None, NOT_INSTALLED])
def test_small_partition_beside_a_gpu_stays_on_the_host(failing: Exception | None) -> None:
    engine = on_gpu(TwoGpus(failing))()

    engine.apply([segment_row(segment("book"), np.ones(DIMENSION, np.float32))], [])

    partition = engine.partition(TENANT, ItemKind.SEGMENT)
    assert arrays.is_on_host(partition.view.vectors)


def test_required_lists_without_cuvs_fail_the_start() -> None:
    with pytest.raises(DependencyError, match=r"index\.kind is ivf, and .*`make install-gpu`"):
        on_gpu(TwoGpus(NOT_INSTALLED), kind="ivf")


def test_an_exact_index_opens_no_cuvs() -> None:
    gpus = TwoGpus()

    on_gpu(gpus, kind="exact")

    assert gpus.opened == []


def test_a_lost_device_fails_the_start() -> None:
    with pytest.raises(torch.AcceleratorError):
        on_gpu(TwoGpus(torch.AcceleratorError("CUDA error")))


def test_a_missing_device_is_named() -> None:
    with pytest.raises(DependencyError, match="cuda:2, and torch finds 2 CUDA devices"):
        on_gpu(TwoGpus(), "cuda:2")


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "hnsw"}, {"lists": 5}, {"device": "gpu"}, {"device": "cuda:"}, {"lists_share": 1}],
)
def test_invalid_index_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="index"):
        load_settings({"index": wrong})


def test_figures_add_up_all_tenants_by_kind() -> None:
    tier = partial(IndexTier, kind=ItemKind.SEGMENT, memory_bytes=1)
    exact = tier(rows=100, dead=10)
    large = tier(rows=5000, dead=500, approximate=True)
    failed = replace(large, rows=3000, dead=0, rebuilding="filling 10 %", failure="no memory")

    figures = {
        (metric.name, *labels.values()): value
        for metric, value, labels in tier_figures([exact, large, failed])
    }

    for place, rows in (("exact", 100), ("approximate", 8000), ("dead", 510)):
        assert figures["trivium_index_rows", "segment", place] == rows
    assert figures["trivium_index_rebuilds", "segment"] == 1
    assert figures["trivium_index_failed_rebuilds", "segment"] == 1
