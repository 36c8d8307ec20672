"""The index engine that the settings name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from serving.adapters.vector_index import ExactIndex, TieredIndex
from serving.adapters.vector_index.lists.cuvs_lists import CuvsLibrary
from serving.adapters.vector_index.lists.errors import ListsDeviceLostError, ListsError
from serving.composition.index_engine import Gpus, engine_maker, tier_figures
from serving.config.settings import IndexSettings, load_settings
from serving.domain.errors import DependencyError
from serving.domain.items.records import ItemKind
from serving.ports.index_engine import IndexEngine
from serving.ports.vector_index import IndexTier
from tests.fakes.lists.cuvs import ILLEGAL_ADDRESS, FakeCuvs

DIMENSION = 8


class TwoGpus(Gpus):
    """Two devices, on which lists are made by a fake of cuVS, unless it cannot be had."""

    def __init__(self, library: CuvsLibrary, failing: Exception | None = None) -> None:
        self._library = library
        self._failing = failing
        self.asked: list[tuple[str, float]] = []

    def count(self) -> int:
        return 2

    def library(self, device: str, share: float) -> CuvsLibrary:
        self.asked.append((device, share))
        if self._failing is not None:
            raise self._failing
        return self._library


NOT_INSTALLED = ListsError("cuVS is not installed: `make install-gpu` installs it, see docs/gpu.md")


def on_gpu(gpus: Gpus, **settings: Any) -> IndexEngine:
    return engine_maker(IndexSettings(device="cuda", **settings), DIMENSION, gpus=gpus)()


def test_by_default_many_rows_are_in_lists() -> None:
    assert isinstance(engine_maker(IndexSettings(), 8)(), TieredIndex)
    assert isinstance(engine_maker(IndexSettings(kind="exact"), 8)(), ExactIndex)


def test_on_a_gpu_every_kernel_is_ready_before_there_is_an_engine(
    cuvs: CuvsLibrary, fake_cuvs: FakeCuvs
) -> None:
    make_engine = engine_maker(IndexSettings(device="cuda:1"), DIMENSION, gpus=TwoGpus(cuvs))
    assert len(fake_cuvs.searches) == 18

    assert isinstance(make_engine(), TieredIndex)
    assert isinstance(make_engine(), TieredIndex)
    assert len(fake_cuvs.searches) == 18


def test_lists_may_take_their_part_of_what_the_process_may_take(cuvs: CuvsLibrary) -> None:
    gpus = TwoGpus(cuvs)
    settings = IndexSettings(device="cuda", lists_share=0.75)

    engine_maker(settings, DIMENSION, gpu_share=0.4, gpus=gpus)
    engine_maker(settings, DIMENSION, gpus=gpus)

    assert gpus.asked == [("cuda", pytest.approx(0.3)), ("cuda", 0.75)]


def test_without_cuvs_every_vector_is_read_on_the_gpu_and_it_is_said_why(
    cuvs: CuvsLibrary, caplog: pytest.LogCaptureFixture
) -> None:
    engine = on_gpu(TwoGpus(cuvs, NOT_INSTALLED))

    assert isinstance(engine, ExactIndex)
    [record] = caplog.records
    assert record.__dict__["reason"] == str(NOT_INSTALLED)


def test_lists_without_cuvs_are_an_error_that_says_how_to_install_it(cuvs: CuvsLibrary) -> None:
    with pytest.raises(DependencyError, match=r"index\.kind is ivf, and .*`make install-gpu`"):
        on_gpu(TwoGpus(cuvs, NOT_INSTALLED), kind="ivf")


def test_an_exact_index_needs_no_cuvs(cuvs: CuvsLibrary) -> None:
    gpus = TwoGpus(cuvs)

    assert isinstance(on_gpu(gpus, kind="exact"), ExactIndex)
    assert gpus.asked == []


def test_a_device_that_is_lost_at_the_start_is_no_reason_to_go_on_without_lists(
    cuvs: CuvsLibrary, fake_cuvs: FakeCuvs
) -> None:
    fake_cuvs.fail("cuvsIvfFlatBuild", ILLEGAL_ADDRESS)

    with pytest.raises(ListsDeviceLostError):
        on_gpu(TwoGpus(cuvs))


def test_a_device_that_is_not_there_is_named(cuvs: CuvsLibrary) -> None:
    with pytest.raises(DependencyError, match="cuda:2, and torch finds 2 CUDA devices"):
        engine_maker(IndexSettings(device="cuda:2"), DIMENSION, gpus=TwoGpus(cuvs))


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "hnsw"},
        {"exact_max_rows": 0},
        {"recall_target": 1.1},
        {"lists": 5},
        {"device": "gpu"},
        {"device": "cuda:"},
        {"lists_share": 1},
    ],
)
def test_index_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="index"):
        load_settings({"index": wrong})


def test_figures_are_of_all_tenants_by_kind() -> None:
    exact = IndexTier(kind=ItemKind.SEGMENT, rows=100, dead=10, memory_bytes=1)
    good = IndexTier(
        kind=ItemKind.SEGMENT, rows=5000, dead=500, memory_bytes=1, tail=20, n_lists=64, recall=0.99
    )
    poor = IndexTier(
        kind=ItemKind.SEGMENT,
        rows=3000,
        dead=0,
        memory_bytes=1,
        n_lists=32,
        recall=0.9,
        rebuilding="filling 10 %",
        failure="no memory",
    )

    figures = {
        (metric.name, *labels.values()): value
        for metric, value, labels in tier_figures([exact, good, poor])
    }

    rows = {place: figures["trivium_index_rows", "segment", place] for place in PLACES}
    assert rows == {"exact": 100, "lists": 7980, "tail": 20, "dead": 510}
    assert figures["trivium_index_recall", "segment"] == 0.9
    assert figures["trivium_index_recall", "fact"] == 1.0
    assert figures["trivium_index_rebuilds", "segment"] == 1
    assert figures["trivium_index_failed_rebuilds", "segment"] == 1


PLACES = ("exact", "lists", "tail", "dead")
