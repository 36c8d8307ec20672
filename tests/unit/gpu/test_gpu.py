"""Models on a device, without one."""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from serving.adapters.encoder.windows import encode_by_length
from serving.adapters.vector_index.device_vector import DeviceVector
from serving.adapters.vector_index.lists.inverted_lists import ListsError
from serving.gpu.cuvs_lists import CuvsLibrary
from serving.gpu.encoders.on_device import to_host, vectors_by_length
from serving.gpu.networks.batches import Network, PackedBatch, Rows, Window, packed, shape_of
from serving.gpu.networks.buckets import Bucket, BucketPlan
from serving.gpu.networks.cuda_graphs import translated_memory_errors
from serving.gpu.networks.errors import CheckpointError, DeviceMemoryError
from serving.gpu.networks.passes import (
    BucketedPasses,
    DirectPasses,
    Passes,
    open_passes,
    use_threads,
)
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture
from serving.gpu.networks.qwen3.elementwise import (
    Steps,
    compiled_steps,
    gated,
    normed,
    rotated,
    try_out,
    with_open_tokens,
)
from serving.gpu.rerankers.sequence_classifier import separator_of, types_of
from serving.ports.embedding import TokenIds
from serving.ports.reranking import Pair

WIDTH, DIMENSION = 6, 4
WINDOWS: list[list[int]] = [[3], [1, 4, 1], [5, 9], [2, 6, 5, 3]]


def network(windows: Sequence[TokenIds]) -> torch.Tensor:
    places = torch.arange(1.0, WIDTH + 1)
    return torch.stack([window[0] + places for window in windows])


def test_vectors_on_device_are_truncated_and_normalized() -> None:
    made = vectors_by_length(WINDOWS, network, DIMENSION, padded_tokens=4)

    wanted = encode_by_length(WINDOWS, to_host(network), DIMENSION, padded_tokens=4)
    assert all(vector is not None for vector in made)
    np.testing.assert_allclose(np.stack([np.asarray(vector) for vector in made]), wanted, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, torch.nan, torch.inf])
def test_unusable_row_is_none_among_vectors(value: float) -> None:
    def spoilt(windows: Sequence[TokenIds]) -> torch.Tensor:
        rows = network(windows)
        rows[[window[0] == 5 for window in windows]] = value
        rows[:, DIMENSION:] = torch.nan  # is cut off
        return rows

    made = vectors_by_length(WINDOWS, spoilt, DIMENSION, padded_tokens=16)

    assert [vector is None for vector in made] == [False, False, True, False]


budgets = st.integers(0, 6000)
windows = st.integers(1, 3000)


@st.composite
def batches(draw: st.DrawFn) -> tuple[BucketPlan, Bucket]:
    """A plan and the shape of a batch, about half of them within the budget."""
    window = draw(windows)
    budget = draw(budgets)
    length = draw(st.integers(1, window))
    rows = draw(st.integers(1, 1 + 2 * budget // length))
    return BucketPlan(token_budget=budget, window=window), Bucket(rows, length)


def holds(bucket: Bucket, batch: Bucket) -> bool:
    return bucket.rows >= batch.rows and bucket.length >= batch.length


@given(batches())
def test_smallest_bucket_holding_the_batch_is_chosen(case: tuple[BucketPlan, Bucket]) -> None:
    plan, batch = case
    holding = [bucket for bucket in plan.buckets if holds(bucket, batch)]
    chosen = plan.choose(batch.rows, batch.length)

    if chosen is None:
        assert holding == []
    else:
        assert chosen in holding
        assert chosen.tokens == min(bucket.tokens for bucket in holding)


@given(batches())
def test_bucket_wastes_a_bounded_part(case: tuple[BucketPlan, Bucket]) -> None:
    plan, batch = case
    chosen = plan.choose(batch.rows, batch.length)

    if chosen is not None:
        assert chosen.rows <= 1.5 * batch.rows
        assert chosen.length <= max(1.25 * batch.length, batch.length + 7)


@given(budgets, windows)
def test_buckets_are_distinct_and_the_largest_comes_first(budget: int, window: int) -> None:
    buckets = BucketPlan(token_budget=budget, window=window).buckets
    tokens = [bucket.tokens for bucket in buckets]

    assert tokens == sorted(tokens, reverse=True)
    assert len(set(buckets)) == len(buckets)
    assert all(bucket.tokens <= budget and bucket.length <= window for bucket in buckets)


CUDA = torch.device("cuda:1")


def test_out_of_memory_names_the_device() -> None:
    with (
        pytest.raises(DeviceMemoryError, match="of memory on cuda:1"),
        translated_memory_errors(CUDA),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def fail_twice() -> None:
    """Raises like a capture that runs out of memory and then cannot be ended."""
    try:
        raise torch.OutOfMemoryError("CUDA out of memory.")
    finally:
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")


def test_out_of_memory_survives_a_failing_capture_end() -> None:
    with pytest.raises(DeviceMemoryError), translated_memory_errors(CUDA):
        fail_twice()


def test_another_error_is_left_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="an illegal instr"), translated_memory_errors(CUDA):
        raise RuntimeError("CUDA error: an illegal instruction was encountered")


VALUES = np.array([0.6, 0.0, 0.8], np.float32)


def made() -> DeviceVector:
    return DeviceVector(torch.from_numpy(VALUES.copy()))


def test_numpy_reads_a_device_vector_once_as_float32() -> None:
    vector = made()

    array = np.asarray(vector)

    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, VALUES)
    assert len(vector) == len(VALUES)
    assert np.asarray(vector) is array


def test_copy_of_a_device_vector_has_its_own_memory() -> None:
    vector = made()

    np.array(vector, copy=True)[0] = 1

    np.testing.assert_array_equal(vector, VALUES)


def test_device_vector_reaches_another_process_as_array() -> None:
    arrived = pickle.loads(pickle.dumps(made(), protocol=5))

    assert type(arrived) is np.ndarray
    np.testing.assert_array_equal(arrived, VALUES)


CPU = torch.device("cpu")
WINDOW = 100
SMALL = BucketPlan(token_budget=128, window=WINDOW)
window_lists = st.lists(
    st.lists(st.integers(1, 99), min_size=1, max_size=WINDOW), min_size=1, max_size=20
)


def of_windows(windows: list[list[int]]) -> NDArray[np.float32]:
    """The rows of the network: first token, last token and length of each window."""
    return np.array([[w[0], w[-1], len(w)] for w in windows], np.float32)


def tiny_network(ids: Tensor, lengths: Tensor) -> Tensor:
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
        return Network(tiny_network, CPU).rows(windows)

    def run_recorded(self, bucket: Bucket, batch: PackedBatch) -> Rows:
        assert batch.shape == (bucket.rows, 1 + bucket.length)
        recorded = self.recorded | {bucket}
        self._require(sum(each.tokens for each in recorded) <= self._recorded_tokens)
        self.calls.append(("replay" if bucket in self.recorded else "record", bucket))
        self.recorded = recorded
        return tiny_network(torch.from_numpy(batch[:, 1:]), torch.from_numpy(batch[:, 0]))

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
    direct: Passes = DirectPasses(Network(tiny_network, CPU))
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
        return tiny_network(ids, lengths)

    windows: list[Window] = [[1, 2, 3], [4]]
    open_passes(Network(watched, CPU), 3, WINDOW).run(windows)

    assert shapes == [(2, 3)]


PUBLISHED: dict[str, object] = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "model_type": "qwen3",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151669,
}
"""As written by transformers 4, without irrelevant keys."""


LATER = {
    **{name: value for name, value in PUBLISHED.items() if not name.startswith("rope")},
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "layer_types": ["full_attention"] * 28,
}
"""The same by transformers 5."""


@pytest.mark.parametrize("config", [PUBLISHED, LATER])
def test_configuration_of_either_transformers_is_read(config: dict[str, object]) -> None:
    assert Qwen3Architecture.read(config) == Qwen3Architecture(
        vocabulary=151669,
        hidden=1024,
        feed_forward=3072,
        layers=28,
        heads=16,
        key_value_heads=8,
        head_dimension=128,
        epsilon=1e-6,
        rope_theta=1e6,
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"model_type": "qwen2"}, "model_type is 'qwen2', which"),
        ({"model_type": None}, "model_type is None, which"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu', which"),
        ({"attention_bias": True}, "attention_bias is True, which"),
        ({"use_sliding_window": True}, "use_sliding_window is True, which"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types is"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope_scaling is"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, "rope_parameters is"),
        ({"rope_theta": None}, "config.json names no rope_theta"),
        ({"head_dim": None}, "config.json names no head_dim"),
        ({"head_dim": 127}, "head_dim is 127, and must be even"),
        ({"num_key_value_heads": 7}, "no multiple of the num_key_value_heads, 7"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, and must be"),
        ({"vocab_size": "many"}, "vocab_size is 'many', and must be"),
    ],
    ids=str,
)
def test_another_network_is_refused_with_the_field_that_tells(
    change: dict[str, object], why: str
) -> None:
    with pytest.raises(CheckpointError, match=why):
        Qwen3Architecture.read({**PUBLISHED, **change})


CLS, SEP = 101, 102


def test_types_change_after_the_first_separator() -> None:
    ids = torch.tensor([[CLS, 5, SEP, 6, 7, SEP], [CLS, SEP, 6, SEP, 0, 0]])

    assert types_of(ids, SEP).tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]]


def test_separator_is_the_last_token_of_the_question() -> None:
    assert separator_of(Pair([CLS, 5, SEP, 6, SEP], [0, 0, 0, 1, 1])) == SEP


def test_pair_without_types_has_no_separator() -> None:
    assert separator_of(Pair([0, 5, 2, 2, 6, 2], [0] * 6)) is None
    assert separator_of(Pair([0, 5, 2, 2, 6, 2])) is None


# ---------------------------------------------------------------- elementwise kernels


EPSILON = 1e-6


def of_width(steps: Steps, step: str, tokens: int, width: int) -> Tensor:
    stream = with_open_tokens(torch.ones((tokens, width)))
    if step == "normed":
        return steps.normed(stream, torch.ones(width), EPSILON)
    if step == "rotated":
        heads = with_open_tokens(torch.ones((tokens, 2, width)))
        return steps.rotated(heads, torch.ones((2, width)), stream, stream, EPSILON)
    return steps.gated(stream)


@pytest.fixture
def no_compiled_code() -> None:
    torch.compiler.reset()


@pytest.mark.usefixtures("no_compiled_code")
@pytest.mark.parametrize("step", ["normed", "rotated", "gated"])
def test_compiled_code_has_fixed_widths(step: str) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def noting(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    steps, plain = compiled_steps(noting), Steps(normed, rotated, gated)
    for width in (16, 32, 64):
        for tokens in (8, 9, 70):
            found = of_width(steps, step, tokens, width)
            assert torch.equal(found, of_width(plain, step, tokens, width))

    assert len(graphs) == 3, "one for each width, of any number of tokens"


@pytest.mark.usefixtures("no_compiled_code")
@pytest.mark.parametrize("step", ["normed", "rotated", "gated"])
def test_step_without_compiler_is_noticed_at_start(step: str) -> None:
    def failing(*_: object) -> Tensor:
        raise FileNotFoundError("cc")

    with pytest.raises(FileNotFoundError):
        try_out(replace(Steps(), **{step: failing}), torch.device("cpu"))


# ---------------------------------------------------------------- threads


@pytest.mark.parametrize(("device", "more"), [("cpu", 1), ("cuda:0", 0)])
def test_threads_of_a_cpu_alone_are_set(device: str, more: int) -> None:
    before = torch.get_num_threads()
    try:
        use_threads(device, before + 1)

        assert torch.get_num_threads() == before + more
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------- cuVS


class NoPools:
    """RMM with a driver that has no pools of memory."""

    def __init__(self) -> None:
        raise RuntimeError("operation not supported\nat: async.hpp:71")


def module(name: str, **values: object) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(values)
    return made


def test_failure_of_rmm_leaves_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(CudaAsyncMemoryResource=NoPools)
    common = module("cuvs.common", Resources=object)
    fakes = {"rmm": module("rmm", mr=memory), "cuvs": module("cuvs"), "cuvs.common": common}
    for name, fake in fakes.items():
        monkeypatch.setitem(sys.modules, name, fake)

    with pytest.raises(ListsError, match=r"^cuVS cannot use cuda:0: [^\n]+$"):
        CuvsLibrary(torch.device("cuda:0"))
