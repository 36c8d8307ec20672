"""Inverted lists on a GPU, compared with cuVS' own bindings and with a scan.

Those that ask the library before it needs a device run wherever it is installed.
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from serving.adapters.vector_index.lists.cuvs_c import (
    NO_FILTER,
    CuvsError,
    Filter,
    Index,
    IndexParams,
    SearchParams,
    TensorView,
    load_cuvs,
)
from serving.adapters.vector_index.lists.cuvs_lists import CuvsLibrary, CuvsLists
from serving.adapters.vector_index.lists.cuvs_worker import CuvsWorker

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        importlib.util.find_spec("libcuvs") is None,
        reason="cuVS is not installed: `make install-gpu` installs it",
    ),
]

on_a_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

COUNT, DIMENSION, N_LISTS, TOPICS = 20_000, 1024, 128, 200

SLOTS = torch.arange(COUNT) * 3 + 5
END = int(SLOTS[-1]) + 1


# ---- the library alone


def test_parameters_made_by_the_library_are_read_where_it_wrote_them() -> None:
    cuvs, made = load_cuvs(), POINTER(IndexParams)()

    cuvs.call("cuvsIvfFlatIndexParamsCreate", byref(made))

    its = made.contents
    assert (its.metric, its.metric_arg, its.n_lists, its.kmeans_n_iters) == (0, 2.0, 1024, 20)
    assert (its.kmeans_trainset_fraction, its.add_data_on_build) == (0.5, True)
    assert (its.adaptive_centers, its.conservative_memory_allocation) == (False, False)
    cuvs.call("cuvsIvfFlatIndexParamsDestroy", made)


def test_tensors_and_a_filter_are_read_where_we_wrote_them() -> None:
    cuvs, index, resources = load_cuvs(), POINTER(Index)(), ctypes.c_size_t()
    cuvs.call("cuvsResourcesCreate", byref(resources))
    cuvs.call("cuvsIvfFlatIndexCreate", byref(index))
    queries, ids, scores = (
        TensorView(torch.zeros((2, 8), dtype=type_))
        for type_ in (torch.float16, torch.int64, torch.float32)
    )

    with pytest.raises(CuvsError, match="queries should have device compatible memory"):
        cuvs.call(
            "cuvsIvfFlatSearch",
            *(resources, byref(SearchParams(1)), index),
            *(queries.reference, ids.reference, scores.reference, Filter(0, NO_FILTER)),
        )
    with pytest.raises(CuvsError, match="Unsupported dataset DLtensor dtype: 0 and bits: 64"):
        cuvs.call("cuvsIvfFlatBuild", resources, byref(IndexParams()), ids.reference, index)

    cuvs.call("cuvsIvfFlatIndexDestroy", index)
    cuvs.call("cuvsResourcesDestroy", resources)


# ---- on a device


@pytest.fixture(scope="module")
def library() -> Iterator[CuvsLibrary]:
    library = CuvsLibrary(torch.device("cuda"))
    yield library
    library.close()


@pytest.fixture(scope="module")
def rows() -> torch.Tensor:
    """float16 (COUNT, DIMENSION), unit vectors about topics, on the device."""
    draws = torch.Generator("cuda").manual_seed(11)
    topics = torch.randn((TOPICS, DIMENSION), generator=draws, device="cuda")
    of = torch.randint(TOPICS, (COUNT,), generator=draws, device="cuda")
    noise = torch.randn((COUNT, DIMENSION), generator=draws, device="cuda")
    return torch.nn.functional.normalize(topics[of] + noise).half()


@pytest.fixture
def lists(library: CuvsLibrary, rows: torch.Tensor) -> Iterator[CuvsLists]:
    lists = library.train(rows, N_LISTS)
    lists.extend(rows, SLOTS.cuda())
    yield lists
    lists.close()


def queries_of(rows: torch.Tensor, count: int = 32) -> torch.Tensor:
    """float32 (count, DIMENSION): rows, moved a little."""
    draws = torch.Generator("cuda").manual_seed(12)
    moved = torch.randn((count, DIMENSION), generator=draws, device="cuda") * 0.02
    return torch.nn.functional.normalize(rows[:count].float() + moved)


def overlap(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The share of what is wanted that was found."""
    pairs = zip(found.tolist(), wanted.tolist(), strict=True)
    return float(np.mean([len(set(each) & set(its)) / len(its) for each, its in pairs]))


@on_a_device
@pytest.mark.parametrize("is_filtered", [False, True], ids=["all", "filtered"])
def test_a_search_finds_what_that_of_the_official_bindings_does(
    lists: CuvsLists, rows: torch.Tensor, tmp_path: Path, is_filtered: bool
) -> None:
    cupy, ivf_flat, filters = oracle()
    queries, mask = queries_of(rows), np.arange(END) % 2 == 0
    lists.save(tmp_path / "lists")

    nearest = lists.search(queries, 10, 8, lists.allow(mask) if is_filtered else None)

    theirs = ivf_flat.load(str(tmp_path / "lists"))
    bits = cupy.asarray(np.packbits(np.pad(mask, (0, -END % 32)), bitorder="little"))
    scores, slots = ivf_flat.search(
        ivf_flat.SearchParams(n_probes=8),
        theirs,
        cupy.asarray(queries.half()),
        10,
        filter=filters.from_bitset(bits.view(cupy.uint32)) if is_filtered else None,
    )
    np.testing.assert_array_equal(nearest.slots.cpu(), cupy.asnumpy(cupy.asarray(slots)))
    np.testing.assert_array_equal(nearest.scores.cpu(), cupy.asnumpy(cupy.asarray(scores)))


def oracle() -> tuple[Any, Any, Any]:
    """The official bindings, and the arrays that they take."""
    cupy = pytest.importorskip("cupy")
    ivf_flat = pytest.importorskip("cuvs.neighbors.ivf_flat")
    return cupy, ivf_flat, pytest.importorskip("cuvs.neighbors.filters")


@on_a_device
def test_a_search_of_all_lists_finds_what_a_scan_does_but_for_float16(
    lists: CuvsLists, rows: torch.Tensor
) -> None:
    queries = queries_of(rows)

    nearest = lists.search(queries, 26, N_LISTS, None)

    wanted = SLOTS[(queries @ rows.float().T).topk(10).indices.cpu()]
    assert overlap(nearest.slots, wanted) == 1.0


@on_a_device
def test_all_is_done_on_the_stream_that_torch_uses_in_the_same_thread(
    library: CuvsLibrary,
) -> None:
    set_to = ctypes.c_void_p()
    streams = {torch.cuda.default_stream().cuda_stream}
    workspace = library._workspace
    for worker in (workspace.searching, workspace.building):

        def compare(worker: CuvsWorker = worker) -> int:
            worker.call("cuvsStreamGet", byref(set_to))
            return int(torch.cuda.current_stream().cuda_stream)

        assert worker.run(compare, "nothing") == set_to.value
        assert set_to.value not in streams
        streams.add(set_to.value)


@on_a_device
def test_what_another_stream_makes_is_waited_for(lists: CuvsLists, rows: torch.Tensor) -> None:
    wanted = lists.search(rows[:32].float(), 1, N_LISTS, None).slots
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    with torch.cuda.stream(stream):
        big = torch.randn((8192, 8192), device="cuda")
        for _ in range(20):
            big = big @ big.T / 8192
        # Ready only after all that.
        queries = rows[:32].float() + big[:32, :1] * 0
        nearest = lists.search(queries, 1, N_LISTS, None)

    assert torch.equal(nearest.slots, wanted)


@on_a_device
@pytest.mark.parametrize("k", [1, 10, 200, 256])
def test_fewer_than_k_survivors_are_found_and_nothing_else(
    lists: CuvsLists, rows: torch.Tensor, k: int
) -> None:
    survivors = SLOTS[[3, 700, 19_999]]
    allowed = lists.allow(np.isin(np.arange(END), survivors.numpy()))
    lists.search(queries_of(rows), k, N_LISTS, None)

    nearest = lists.search(queries_of(rows), k, N_LISTS, allowed)

    is_found = nearest.slots >= 0
    assert is_found.sum(dim=1).tolist() == [min(k, 3)] * 32
    assert set(nearest.slots[is_found].tolist()) <= set(survivors.tolist())
    assert torch.isneginf(nearest.scores[~is_found]).all()


@on_a_device
def test_what_is_added_is_found_and_no_row_is_lost(
    library: CuvsLibrary, rows: torch.Tensor
) -> None:
    lists = library.train(rows, N_LISTS)
    slots = SLOTS.cuda()
    for start in range(0, COUNT, 3_000):
        part = slice(start, start + 3_000)
        lists.extend(rows[part], slots[part])

        nearest = lists.search(rows[: part.stop : 101].float(), 17, N_LISTS, None)

        asked = slots[: part.stop : 101]
        assert (nearest.slots == asked[:, None]).any(dim=1).all()
    assert lists.list_sizes().sum() == COUNT
    lists.close()


@on_a_device
def test_rows_beyond_a_mask_do_not_pass_it(lists: CuvsLists, rows: torch.Tensor) -> None:
    allowed = lists.allow(np.ones(END, np.bool_))
    lists.extend(rows[:1], torch.tensor([50 * END], device="cuda"))

    found = lists.search(rows[:1].float(), 5, N_LISTS, allowed).slots
    assert 50 * END not in found.tolist()[0]


@on_a_device
def test_the_lists_of_a_file_answer_as_those_that_were_saved(
    library: CuvsLibrary, lists: CuvsLists, rows: torch.Tensor, tmp_path: Path
) -> None:
    lists.save(tmp_path / "lists")

    loaded = library.load(tmp_path / "lists")

    for each, again in zip(
        lists.search(queries_of(rows), 20, 8, None),
        loaded.search(queries_of(rows), 20, 8, None),
        strict=True,
    ):
        assert torch.equal(each, again)
    assert loaded.list_sizes().tolist() == lists.list_sizes().tolist()
    loaded.extend(rows[:1], torch.tensor([END], device="cuda"))
    loaded.close()


@on_a_device
def test_a_row_that_is_dead_before_a_search_is_not_in_its_answer(
    lists: CuvsLists, rows: torch.Tensor
) -> None:
    """Searches in two threads, while rows die in a third and others come."""
    alive = np.zeros(60 * END, np.bool_)
    alive[SLOTS.numpy()] = True
    published: list[tuple[object, NDArray[np.bool_]]] = [(lists.allow(alive), alive.copy())]
    dead_found: list[int] = []
    ended = threading.Event()

    def search() -> None:
        while not ended.is_set():
            allowed, living = published[-1]
            slots = lists.search(queries_of(rows), 50, N_LISTS, allowed).slots.flatten().cpu()
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


class _ColdLibrary(CuvsLibrary):
    """Makes nothing ready."""

    def warm_up(self, dimension: int) -> None:
        pass


def loading_calls(library: CuvsLibrary, sizes: Sequence[int], *, is_filtered: bool) -> set[str]:
    """The calls of CUDA that load code, in first searches of these sizes."""
    odd = torch.nn.functional.normalize(torch.randn((512, 1021), device="cuda")).half()
    lists = library.train(odd, 8)
    lists.extend(odd, torch.arange(512, device="cuda"))
    mask = lists.allow(np.ones(512, np.bool_)) if is_filtered else None
    with torch.profiler.profile() as profile:
        for k in sizes:
            lists.search(odd[:3].float(), k, 4, mask)
    lists.close()
    library.close()
    names = {str(event.key) for event in profile.key_averages()}
    return {name for name in names if "LibraryLoad" in name or "ModuleLoad" in name}


@on_a_device
def test_no_search_waits_for_a_kernel_to_be_linked() -> None:
    """By calls and not by time; of a dimension that no other test has kernels linked for."""
    sizes, device = (1, 2, 3, 5, 10, 26, 50, 100, 256), torch.device("cuda")

    # Where nothing is made ready, the first search of a sort loads its kernel, and is seen to.
    assert loading_calls(_ColdLibrary(device), [10], is_filtered=False)
    for is_filtered in (False, True):
        assert not loading_calls(CuvsLibrary(device), sizes, is_filtered=is_filtered)
