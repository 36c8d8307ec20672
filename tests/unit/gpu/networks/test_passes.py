"""Recorded shapes, the fallbacks when memory is short, and the shape in which a batch is run."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from serving.gpu.networks.batches import Network, PackedBatch, Rows, Window, packed, shape_of
from serving.gpu.networks.buckets import Bucket, BucketPlan
from serving.gpu.networks.errors import DeviceMemoryError
from serving.gpu.networks.passes import (
    RECORDED_S,
    BucketedPasses,
    DirectPasses,
    Passes,
    open_passes,
)

CPU = torch.device("cpu")
WINDOW = 100
SMALL = BucketPlan(token_budget=64, window=WINDOW)

window_lists = st.lists(
    st.lists(st.integers(1, 99), min_size=1, max_size=WINDOW), min_size=1, max_size=20
)


def of_windows(windows: list[list[int]]) -> NDArray[np.float32]:
    """The rows of the network: first token, last token and length of each window."""
    return np.array([[w[0], w[-1], len(w)] for w in windows], np.float32)


def network(ids: Tensor, lengths: Tensor) -> Tensor:
    last = ids.gather(1, lengths[:, None].long() - 1)[:, 0]
    return torch.stack([ids[:, 0], last, lengths], dim=1).float()


class FakeDevice:
    """A `GraphDevice` with memory for a number of tokens a pass, and a number recorded in all.

    The first pass of a shape takes a second, others so long for each token; nothing else does.
    """

    def __init__(
        self, *, tokens: int = 10**9, recorded_tokens: int = 10**9, token_s: float = 0
    ) -> None:
        self._token_s = token_s
        self._seconds = 0.0
        self._tokens = tokens
        self._recorded_tokens = recorded_tokens
        self.calls: list[tuple[str, Bucket]] = []
        self.captured: list[Bucket] = []

    def run(self, windows: Sequence[Window]) -> Rows:
        shape = shape_of(windows)
        self._require(shape.tokens <= self._tokens)
        self._seconds += shape.tokens * self._token_s if ("run", shape) in self.calls else 1
        self.calls.append(("run", shape))
        return Network(network, CPU).rows(windows)

    def capture(self, bucket: Bucket) -> None:
        self._require(bucket.tokens <= self._tokens)
        self._require(sum(b.tokens for b in self.captured) + bucket.tokens <= self._recorded_tokens)
        self.calls.append(("capture", bucket))
        self.captured.append(bucket)

    def replay(self, bucket: Bucket, batch: PackedBatch) -> Rows:
        assert bucket in self.captured
        assert batch.shape == (bucket.rows, 1 + bucket.length)
        self.calls.append(("replay", bucket))
        return network(torch.from_numpy(batch[:, 1:]), torch.from_numpy(batch[:, 0]))

    def clock(self) -> float:
        return self._seconds

    def _require(self, there_is_room: bool) -> None:
        if not there_is_room:
            raise DeviceMemoryError("full")


def passes_on(device: FakeDevice, token_budget: int = 1000) -> BucketedPasses:
    return BucketedPasses(device, SMALL, token_budget, device.clock)


def last_call(device: FakeDevice) -> tuple[str, Bucket]:
    return device.calls[-1]


def test_packed_batch_has_lengths_and_padded_tokens() -> None:
    batch = packed([[5, 6], [7]], Bucket(3, 4))

    assert batch.tolist() == [[2, 5, 6, 0, 0], [1, 7, 0, 0, 0], [1, 0, 0, 0, 0]]
    assert batch.dtype == np.int32


@given(window_lists)
def test_padding_rows_are_not_answered(windows: list[list[int]]) -> None:
    direct: Passes = DirectPasses(Network(network, CPU))
    bucketed: Passes = passes_on(FakeDevice())

    np.testing.assert_array_equal(direct.run(windows), of_windows(windows))
    np.testing.assert_array_equal(bucketed.run(windows), of_windows(windows))


@given(window_lists, st.integers(WINDOW, 400), st.integers(0, 2000))
def test_short_of_memory_the_rows_are_the_same(
    windows: list[list[int]], tokens: int, recorded_tokens: int
) -> None:
    device = FakeDevice(tokens=tokens, recorded_tokens=recorded_tokens)
    passes = passes_on(device)
    fitting = windows[: max(1, passes.token_budget // WINDOW)]

    np.testing.assert_array_equal(passes.run(fitting), of_windows(fitting))


def test_largest_shapes_are_recorded_first() -> None:
    device = FakeDevice()
    passes_on(device)
    captures = [call for call in device.calls if call[0] == "capture"]
    last = device.calls[-1]

    assert captures == [("capture", bucket) for bucket in SMALL.buckets]
    assert captures[0][1].tokens > captures[-1][1].tokens
    assert last == ("run", Bucket(10, WINDOW))


@given(st.integers(1, 70))
def test_slow_shape_is_not_recorded(tokens: int) -> None:
    device = FakeDevice(token_s=RECORDED_S / (tokens + 0.5))
    passes = passes_on(device)

    assert passes.captured == {bucket for bucket in SMALL.buckets if bucket.tokens <= tokens}
    tried = {shape for call, shape in device.calls if call == "run"}
    assert len(tried) <= 1 + len(SMALL.buckets).bit_length()


def test_recording_of_shapes_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    device = FakeDevice(token_s=RECORDED_S / 32)
    passes = passes_on(device)

    (record,) = caplog.records
    logged = vars(record)
    assert logged["planned"] == len(SMALL.buckets) > logged["worthwhile"] > 0
    assert logged["worthwhile"] == logged["recorded"] == len(passes.captured)
    assert logged["seconds"] == pytest.approx(device.clock() - 1, abs=0.01)


def test_batch_beyond_all_buckets_is_run_directly() -> None:
    device = FakeDevice()
    passes = passes_on(device)

    passes.run([[1] * 7] * 3)
    assert last_call(device) == ("replay", Bucket(4, 8))

    passes.run([[1] * 90] * 3)
    assert last_call(device) == ("run", Bucket(3, 90))


def test_shapes_beyond_memory_are_skipped_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    device = FakeDevice(recorded_tokens=200)
    passes = passes_on(device)

    assert set(device.captured) == passes.captured
    assert 0 < len(passes.captured) < len(SMALL.buckets)
    (record,) = caplog.records
    assert "fewer CUDA graphs" in record.message
    assert (record.levelno, vars(record)["planned"], vars(record)["recorded"]) == (
        logging.WARNING,
        len(SMALL.buckets),
        len(passes.captured),
    )


def test_batch_of_a_skipped_shape_is_run_directly() -> None:
    device = FakeDevice(recorded_tokens=0)
    passes = passes_on(device)

    passes.run([[1] * 7] * 3)
    assert passes.captured == frozenset()
    assert last_call(device) == ("run", Bucket(3, 7))


def test_batches_are_halved_until_memory_suffices(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    passes = passes_on(FakeDevice(tokens=350))

    assert passes.token_budget == 2 * WINDOW
    assert [record.message for record in caplog.records] == [
        "batches limited to fewer tokens than planned: out of device memory"
    ]


def test_sufficient_memory_keeps_the_planned_batch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    passes = passes_on(FakeDevice())

    assert passes.token_budget == 1000
    assert caplog.records == []


def test_longest_window_beyond_memory_is_an_error() -> None:
    with pytest.raises(DeviceMemoryError):
        passes_on(FakeDevice(tokens=WINDOW - 1))


def test_batch_on_a_cpu_keeps_its_shape() -> None:
    shapes = []

    def watched(ids: Tensor, lengths: Tensor) -> Tensor:
        shapes.append(tuple(ids.shape))
        return network(ids, lengths)

    windows: list[Window] = [[1, 2, 3], [4]]
    open_passes(Network(watched, CPU), 3, WINDOW).run(windows)

    assert shapes == [(2, 3)]
