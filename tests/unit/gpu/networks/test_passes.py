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
from serving.gpu.networks.passes import BucketedPasses, DirectPasses, Passes, open_passes

CPU = torch.device("cpu")
WINDOW = 100
SMALL = BucketPlan(token_budget=128, window=WINDOW)

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
    """A `GraphDevice` with memory for a number of tokens a pass, and a number recorded in all."""

    def __init__(self, *, tokens: int = 10**9, recorded_tokens: int = 10**9) -> None:
        self._tokens = tokens
        self._recorded_tokens = recorded_tokens
        self.calls: list[tuple[str, Bucket]] = []
        self.recorded: set[Bucket] = set()

    def run(self, windows: Sequence[Window]) -> Rows:
        shape = shape_of(windows)
        self._require(shape.tokens <= self._tokens)
        self.calls.append(("run", shape))
        return Network(network, CPU).rows(windows)

    def run_recorded(self, bucket: Bucket, batch: PackedBatch) -> Rows:
        assert batch.shape == (bucket.rows, 1 + bucket.length)
        recorded = self.recorded | {bucket}
        self._require(sum(each.tokens for each in recorded) <= self._recorded_tokens)
        self.calls.append(("replay" if bucket in self.recorded else "record", bucket))
        self.recorded = recorded
        return network(torch.from_numpy(batch[:, 1:]), torch.from_numpy(batch[:, 0]))

    def _require(self, there_is_room: bool) -> None:
        if not there_is_room:
            raise DeviceMemoryError("full")


def passes_on(device: FakeDevice, token_budget: int = 1000) -> BucketedPasses:
    return BucketedPasses(device, SMALL, token_budget)


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


def test_shapes_of_questions_are_recorded_at_the_start() -> None:
    device = FakeDevice()
    passes_on(device)

    assert device.recorded == set(SMALL.of_questions)
    assert device.calls[0] == ("run", Bucket(10, WINDOW))


def test_other_shape_is_recorded_when_first_used() -> None:
    device = FakeDevice()
    passes = passes_on(device)

    passes.run([[1] * 4] * 12)
    passes.run([[1] * 5] * 11)

    assert device.calls[-2:] == [("record", Bucket(12, 8)), ("replay", Bucket(12, 8))]


def test_batch_beyond_all_buckets_is_run_directly() -> None:
    device = FakeDevice()
    passes = passes_on(device)

    passes.run([[1] * 7] * 3)
    passes.run([[1] * 90] * 3)

    assert device.calls[-2:] == [("replay", Bucket(4, 8)), ("run", Bucket(3, 90))]


def test_shape_beyond_memory_is_run_directly(caplog: pytest.LogCaptureFixture) -> None:
    device = FakeDevice(recorded_tokens=0)
    passes = passes_on(device)
    at_the_start = list(caplog.messages)

    passes.run([[1] * 7] * 3)
    passes.run([[1] * 7] * 3)

    assert device.calls[-2:] == [("run", Bucket(3, 7))] * 2
    assert device.recorded == set()
    logged = "a shape of batches is not recorded: out of device memory"
    assert caplog.messages == at_the_start == [logged] * len(SMALL.of_questions)


@pytest.mark.parametrize(
    ("tokens", "budget", "logged"),
    [
        (350, 2 * WINDOW, ["batches limited to fewer tokens than planned: out of device memory"]),
        (10**9, 1000, []),
    ],
)
def test_batches_are_halved_until_memory_suffices(
    caplog: pytest.LogCaptureFixture, tokens: int, budget: int, logged: list[str]
) -> None:
    caplog.set_level(logging.WARNING)

    assert passes_on(FakeDevice(tokens=tokens)).token_budget == budget
    assert caplog.messages == logged


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
