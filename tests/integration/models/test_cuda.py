"""Qwen3, the lists of cuVS, and errors of CUDA, on a device; none needs a checkpoint."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bench.gpu.networks.random_weights import PUBLISHED, random_weights
from serving.gpu.cuvs_lists import CuvsLibrary, CuvsLists
from serving.gpu.networks.batches import Network, Rows, Window, packed
from serving.gpu.networks.buckets import Bucket, BucketPlan
from serving.gpu.networks.cuda_graphs import CudaGraphs
from serving.gpu.networks.passes import BucketedPasses
from serving.gpu.networks.qwen3.network import Qwen3, Qwen3Weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


WINDOW = 256
SIZE = PUBLISHED["0.6B"]


def random_windows(lengths: Sequence[int]) -> list[Window]:
    draws = np.random.default_rng(5)
    return [draws.integers(0, SIZE.vocabulary, length).tolist() for length in lengths]


RAGGED = random_windows([38, 1, 256, 40, 129, 7])
EQUALLY_LONG = random_windows([38] * 32)


@pytest.fixture(scope="module")
def device() -> torch.device:
    return torch.device("cuda")


@pytest.fixture(scope="module")
def weights(device: torch.device) -> Qwen3Weights:
    return random_weights(SIZE, device, "bfloat16")


@pytest.fixture(scope="module")
def graphs(weights: Qwen3Weights, device: torch.device) -> CudaGraphs:
    plan = BucketPlan(token_budget=2048, window=WINDOW)
    network = Network(Qwen3(SIZE, weights, WINDOW), device)
    return CudaGraphs(network, SIZE.hidden, plan.buckets)


@pytest.fixture(scope="module")
def library(weights: Qwen3Weights, device: torch.device) -> Any:
    from transformers import Qwen3Config, Qwen3Model

    config = Qwen3Config(
        vocab_size=SIZE.vocabulary,
        hidden_size=SIZE.hidden,
        intermediate_size=SIZE.feed_forward,
        num_hidden_layers=SIZE.layers,
        num_attention_heads=SIZE.heads,
        num_key_value_heads=SIZE.key_value_heads,
        head_dim=SIZE.head_dimension,
        rope_parameters={"rope_type": "default", "rope_theta": SIZE.rope_theta},
    )
    model: Any = Qwen3Model(config).bfloat16()
    model.load_state_dict(dict(weights.parts(SIZE)))
    return model.to(device).eval()


def cosines(made: Rows, wanted: Rows) -> Rows:
    return torch.cosine_similarity(made.float(), wanted.float(), dim=1)


@pytest.mark.parametrize("windows", [RAGGED, EQUALLY_LONG], ids=["ragged", "equally long"])
def test_in_bfloat16_rows_are_those_of_transformers(
    graphs: CudaGraphs, library: Any, device: torch.device, windows: list[Window]
) -> None:
    made = graphs.run(windows)

    with torch.inference_mode():
        alone = [torch.tensor([window], device=device) for window in windows]
        states = [library(ids).last_hidden_state[0, -1] for ids in alone]
    wanted = torch.stack(states)
    assert cosines(made, wanted).min() >= 0.999


@pytest.mark.parametrize("windows", [RAGGED, EQUALLY_LONG], ids=["ragged", "equally long"])
def test_replay_equals_the_batch_kernel_by_kernel(
    graphs: CudaGraphs, windows: list[Window]
) -> None:
    (rows, length) = (len(windows), max(map(len, windows)))
    bucket = BucketPlan(token_budget=2048, window=WINDOW).choose(rows, length)
    assert bucket is not None
    batch = packed(windows, bucket)
    graphs.run_recorded(bucket, batch)

    replayed = graphs.run_recorded(bucket, batch)
    graphs.run_recorded(bucket, packed(random_windows([length]), bucket))

    alone = graphs.run(windows)
    torch.testing.assert_close(replayed[: len(windows)], alone, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(graphs.run_recorded(bucket, batch), replayed, rtol=0, atol=0)


def test_captures_share_memory_without_disturbing_others(graphs: CudaGraphs) -> None:
    passes = BucketedPasses(graphs, BucketPlan(token_budget=512, window=WINDOW), 4096)
    windows = random_windows([38, 20, 3])
    alone = passes.run(windows)

    for rows in (1, 7, 12):
        passes.run(random_windows([40] * rows))

    torch.testing.assert_close(passes.run(windows), alone, rtol=0, atol=0)
    assert Bucket(4, 40) in BucketPlan(token_budget=512, window=WINDOW).of_questions


COUNT, DIMENSION, N_LISTS, TOPICS = 20_000, 1024, 128, 200

SLOTS = torch.arange(COUNT) * 3 + 5
END = int(SLOTS[-1]) + 1


@pytest.fixture(scope="module")
def lists_library() -> CuvsLibrary:
    pytest.importorskip("cuvs")
    return CuvsLibrary(torch.device("cuda"))


@pytest.fixture(scope="module")
def rows() -> torch.Tensor:
    """float16 (COUNT, DIMENSION), unit vectors about topics, on the device."""
    draws = torch.Generator("cuda").manual_seed(11)
    topics = torch.randn((TOPICS, DIMENSION), generator=draws, device="cuda")
    of = torch.randint(TOPICS, (COUNT,), generator=draws, device="cuda")
    noise = torch.randn((COUNT, DIMENSION), generator=draws, device="cuda")
    return torch.nn.functional.normalize(topics[of] + noise).half()


@pytest.fixture
def lists(lists_library: CuvsLibrary, rows: torch.Tensor) -> CuvsLists:
    lists = lists_library.train(rows, N_LISTS)
    lists.extend(rows, SLOTS.cuda())
    return lists


def queries_of(rows: torch.Tensor, count: int = 32) -> torch.Tensor:
    """float32 (count, DIMENSION): rows, moved a little."""
    draws = torch.Generator("cuda").manual_seed(12)
    moved = torch.randn((count, DIMENSION), generator=draws, device="cuda") * 0.02
    return torch.nn.functional.normalize(rows[:count].float() + moved)


def test_candidates_include_the_true_nearest(lists: CuvsLists, rows: torch.Tensor) -> None:
    queries = queries_of(rows)

    slots = lists.search(queries, 26, N_LISTS, None)

    wanted = SLOTS[(queries @ rows.float().T).topk(10).indices.cpu()]
    pairs = zip(slots.tolist(), wanted.tolist(), strict=True)
    assert all(set(true) <= set(found) for found, true in pairs)


def test_queries_of_another_stream_are_waited_for(lists: CuvsLists, rows: torch.Tensor) -> None:
    wanted = lists.search(rows[:32].float(), 1, N_LISTS, None)
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    with torch.cuda.stream(stream):
        big = torch.randn((8192, 8192), device="cuda")
        for _ in range(20):
            big = big @ big.T / 8192
        # Ready only after all that.
        queries = rows[:32].float() + big[:32, :1] * 0
        slots = lists.search(queries, 1, N_LISTS, None)

    assert torch.equal(slots, wanted)


def test_dead_rows_are_in_no_later_answer(lists: CuvsLists, rows: torch.Tensor) -> None:
    """Searches in two threads, while rows die in a third and others come."""
    alive = np.zeros(60 * END, np.bool_)
    alive[SLOTS.numpy()] = True
    published: list[tuple[object, NDArray[np.bool_]]] = [(lists.allow(alive), alive.copy())]
    dead_found: list[int] = []
    ended = threading.Event()

    def search() -> None:
        while not ended.is_set():
            allowed, living = published[-1]
            slots = lists.search(queries_of(rows), 50, N_LISTS, allowed).flatten().cpu()
            dead_found.extend(slot for slot in slots.tolist() if slot >= 0 and not living[slot])

    searching = [threading.Thread(target=search) for _ in range(2)]
    for thread in searching:
        thread.start()
    draws = np.random.default_rng(13)
    for step in range(40):
        alive[draws.choice(SLOTS.numpy(), 200)] = False
        published.append((lists.allow(alive), alive.copy()))
        lists.extend(rows[step : step + 1], torch.tensor([END + step], device="cuda"))
    ended.set()
    for thread in searching:
        thread.join()

    assert not dead_found


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
