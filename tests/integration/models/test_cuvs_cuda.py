"""Inverted lists of cuVS on a GPU: recall in float16, streams, and concurrent changes.

`tests/contract/test_inverted_lists.py` has what they share with FAISS.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from serving.gpu.cuvs_lists import CuvsLibrary, CuvsLists

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

COUNT, DIMENSION, N_LISTS, TOPICS = 20_000, 1024, 128, 200

SLOTS = torch.arange(COUNT) * 3 + 5
END = int(SLOTS[-1]) + 1


@pytest.fixture(scope="module")
def library() -> CuvsLibrary:
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
def lists(library: CuvsLibrary, rows: torch.Tensor) -> CuvsLists:
    lists = library.train(rows, N_LISTS)
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
