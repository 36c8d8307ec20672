"""Calls of cuVS, the translation of its errors, and the release of its resources."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from serving.adapters.vector_index.lists.cuvs_c import Cuvs, TensorView, load_cuvs
from serving.adapters.vector_index.lists.cuvs_lists import CuvsLibrary, CuvsLists
from serving.adapters.vector_index.lists.cuvs_worker import Streams
from serving.adapters.vector_index.lists.errors import (
    ListsDeviceLostError,
    ListsError,
    OutOfMemoryError,
)
from tests.fakes.lists.cuvs import ILLEGAL_ADDRESS, OUT_OF_MEMORY, REFUSED, FakeCuvs, HostStream
from tests.fixtures.cuvs import HOST, HOST_STREAMS
from tests.support.waiting import until

DIMENSION, N_LISTS = 24, 4
ROWS = torch.nn.functional.normalize(
    torch.randn((64, DIMENSION), generator=torch.Generator().manual_seed(7))
).half()
SLOTS = torch.arange(64)


@pytest.fixture
def lists(cuvs: CuvsLibrary) -> CuvsLists:
    lists = cuvs.train(ROWS, N_LISTS)
    lists.extend(ROWS[:32], SLOTS[:32])
    return lists


def nearest_to(lists: CuvsLists, row: int) -> int:
    return int(lists.search(ROWS[row : row + 1].float(), 1, N_LISTS, None).slots[0, 0])


def test_nothing_is_left_when_all_is_closed(fake_cuvs: FakeCuvs) -> None:
    library = CuvsLibrary(HOST, cuvs=Cuvs(fake_cuvs), streams=HOST_STREAMS)
    lists = library.train(ROWS, N_LISTS)
    lists.extend(ROWS, SLOTS)
    lists.search(ROWS[:3].float(), 5, 2, lists.allow(np.ones(10, np.bool_)))
    assert fake_cuvs.living == ["index", "resources", "resources", "search parameters"]

    lists.close()
    library.close()

    assert fake_cuvs.living == []


def test_lists_that_are_closed_are_freed_once_and_refuse_to_search(
    cuvs: CuvsLibrary, fake_cuvs: FakeCuvs, lists: CuvsLists
) -> None:
    lists.close()
    lists.close()

    assert "index" not in fake_cuvs.living
    with pytest.raises(ListsError, match="closed"):
        nearest_to(lists, 0)


def test_each_kernel_that_a_search_may_need_is_linked_before_the_first(
    cuvs: CuvsLibrary, fake_cuvs: FakeCuvs
) -> None:
    cuvs.train(ROWS, N_LISTS)

    capacities = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    asked = [(each.k, each.is_filtered) for each in fake_cuvs.searches]
    assert asked == [(k, False) for k in capacities] + [(k, True) for k in capacities]
    assert fake_cuvs.living.count("index") == 1


def test_a_dimension_is_made_ready_once(cuvs: CuvsLibrary, fake_cuvs: FakeCuvs) -> None:
    cuvs.train(ROWS, N_LISTS)
    fake_cuvs.searches.clear()

    cuvs.train(ROWS, N_LISTS)
    assert fake_cuvs.searches == []
    cuvs.train(ROWS[:, :16], N_LISTS)
    assert len(fake_cuvs.searches) == 18


def test_a_process_has_one_pool_however_many_libraries(fake_cuvs: FakeCuvs) -> None:
    shared = Cuvs(fake_cuvs)
    libraries = [CuvsLibrary(HOST, cuvs=shared, streams=HOST_STREAMS) for _ in range(2)]

    assert fake_cuvs.calls.count("cuvsRMMPoolMemoryResourceEnable") == 1
    assert fake_cuvs.calls.index("cuvsRMMPoolMemoryResourceEnable") < fake_cuvs.calls.index(
        "cuvsResourcesCreate"
    )
    for library in libraries:
        library.close()


def test_the_pool_stays_when_the_library_that_began_it_is_closed(fake_cuvs: FakeCuvs) -> None:
    shared = Cuvs(fake_cuvs)
    first, second = (CuvsLibrary(HOST, cuvs=shared, streams=HOST_STREAMS) for _ in range(2))

    first.close()

    lists = second.train(ROWS, N_LISTS)
    lists.extend(ROWS, SLOTS)
    assert nearest_to(lists, 7) == 7
    second.close()


def test_a_search_does_not_wait_for_lists_that_are_made(
    cuvs: CuvsLibrary, fake_cuvs: FakeCuvs, lists: CuvsLists
) -> None:
    begun, searched = threading.Event(), threading.Event()

    def wait_for_the_search() -> None:
        begun.set()
        assert searched.wait(10), "the search waits for the training"

    fake_cuvs.on_build = wait_for_the_search
    training = threading.Thread(target=lambda: cuvs.train(ROWS, N_LISTS))
    training.start()
    begun.wait()

    assert nearest_to(lists, 5) == 5
    searched.set()
    training.join()


def test_lists_are_not_extended_while_they_are_searched(
    fake_cuvs: FakeCuvs, lists: CuvsLists
) -> None:
    """The fake rejects a change during a read."""
    extending = threading.Thread(target=lambda: lists.extend(ROWS[32:], SLOTS[32:]))

    def extend_meanwhile() -> None:
        if extending.ident is None:
            waits = fake_cuvs.calls.count("cuvsStreamSync")
            extending.start()
            # Its rows are prepared by then, and only the search blocks it.
            until(lambda: fake_cuvs.calls.count("cuvsStreamSync") > waits)

    fake_cuvs.on_search = extend_meanwhile
    assert nearest_to(lists, 5) == 5
    extending.join()

    assert nearest_to(lists, 40) == 40


def test_lists_that_nobody_has_any_more_are_freed_when_others_are_made(
    cuvs: CuvsLibrary, fake_cuvs: FakeCuvs
) -> None:
    for _ in range(3):
        lists = cuvs.train(ROWS, N_LISTS)
    lists.close()
    cuvs.train(ROWS, N_LISTS).close()

    assert "index" not in fake_cuvs.living


def test_one_thread_calls_the_library_for_all_callers(lists: CuvsLists) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda row=row: found.append(nearest_to(lists, row)))
        for row in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(found) == list(range(8))


def test_a_bitset_is_made_once_and_again_only_for_slots_that_it_does_not_cover(
    lists: CuvsLists,
) -> None:
    allowed = lists.allow(np.ones(40, np.bool_))
    words = allowed.covering(32).tensor  # type: ignore[attr-defined]

    lists.extend(ROWS[32:33], torch.tensor([50_000]))
    nearest_to(lists, 0)
    assert allowed.covering(50_001).tensor is words  # type: ignore[attr-defined]

    assert allowed.covering(70_000).tensor.numel() * 32 >= 70_000  # type: ignore[attr-defined]


@pytest.mark.parametrize("k", [0, 257])
def test_a_k_that_cuvs_has_no_kernel_for_is_refused(lists: CuvsLists, k: int) -> None:
    with pytest.raises(ValueError, match="k must be 1 to 256"):
        lists.search(ROWS[:1].float(), k, 1, None)


def test_queries_of_another_dimension_are_refused(lists: CuvsLists) -> None:
    with pytest.raises(ValueError, match="24 dimensions, got 23"):
        lists.search(torch.zeros((1, 23)), 1, 1, None)


def test_only_what_is_contiguous_can_be_handed_over() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        TensorView(ROWS.T)


# ---- memory


def test_lists_that_have_no_room_for_more_stay_as_they_are(
    fake_cuvs: FakeCuvs, lists: CuvsLists
) -> None:
    fake_cuvs.memory = 100

    with pytest.raises(OutOfMemoryError, match="no memory for 32 more rows in lists"):
        lists.extend(ROWS[32:], SLOTS[32:])

    assert nearest_to(lists, 5) == 5
    fake_cuvs.memory = 1 << 30
    lists.extend(ROWS[32:], SLOTS[32:])
    assert nearest_to(lists, 40) == 40
    assert lists.list_sizes().sum() == 64


def test_lists_whose_extension_broke_off_are_not_searched(
    fake_cuvs: FakeCuvs, lists: CuvsLists, tmp_path: Path
) -> None:
    fake_cuvs.fail("cuvsIvfFlatExtend", OUT_OF_MEMORY)
    with pytest.raises(OutOfMemoryError):
        lists.extend(ROWS[32:], SLOTS[32:])

    with pytest.raises(ListsError, match="torn: rebuild them"):
        nearest_to(lists, 0)
    with pytest.raises(ListsError, match="torn"):
        lists.save(tmp_path / "lists")
    lists.close()
    assert "index" not in fake_cuvs.living


def test_training_that_does_not_fit_leaves_nothing(cuvs: CuvsLibrary, fake_cuvs: FakeCuvs) -> None:
    cuvs.train(ROWS, N_LISTS).close()
    fake_cuvs.fail("cuvsIvfFlatBuild", OUT_OF_MEMORY)

    with pytest.raises(OutOfMemoryError, match="no memory for training 4 lists on 64 rows"):
        cuvs.train(ROWS, N_LISTS)

    assert fake_cuvs.living == ["resources", "resources", "search parameters"]


# ---- a device that is lost, and errors that pass


def search(lists: CuvsLists) -> None:
    nearest_to(lists, 0)


def extend(lists: CuvsLists) -> None:
    lists.extend(ROWS[32:], SLOTS[32:])


def allow(lists: CuvsLists) -> None:
    lists.allow(np.ones(3, np.bool_))


@pytest.mark.parametrize(
    ("fails", "use"),
    [
        ("cuvsStreamSync", search),
        ("cuvsStreamSync", allow),
        ("cuvsIvfFlatSearch", search),
        ("cuvsIvfFlatExtend", extend),
    ],
)
def test_a_permanent_error_means_a_lost_device_and_nothing_is_called_any_more(
    cuvs: CuvsLibrary,
    fake_cuvs: FakeCuvs,
    lists: CuvsLists,
    fails: str,
    use: Callable[[CuvsLists], None],
) -> None:
    fake_cuvs.fail(fails, ILLEGAL_ADDRESS)
    with pytest.raises(ListsDeviceLostError, match="cudaErrorIllegalAddress") as raised:
        use(lists)
    calls = len(fake_cuvs.calls)

    for again in (search, extend, allow):
        with pytest.raises(ListsDeviceLostError, match="cudaErrorIllegalAddress"):
            again(lists)
    lists.close()

    assert len(fake_cuvs.calls) == calls
    assert "\n" not in str(raised.value)


def test_an_error_without_a_name_is_one_that_stays_if_nothing_works_after_it(
    fake_cuvs: FakeCuvs, lists: CuvsLists
) -> None:
    fake_cuvs.fail("cuvsIvfFlatSearch", "cuBLAS error: CUBLAS_STATUS_EXECUTION_FAILED")
    fake_cuvs.fail("cuvsStreamSync", "cuBLAS error")

    with pytest.raises(ListsDeviceLostError, match="CUBLAS_STATUS_EXECUTION_FAILED"):
        search(lists)


def test_an_error_has_the_librarys_message_and_the_next_search_succeeds(
    fake_cuvs: FakeCuvs, lists: CuvsLists
) -> None:
    fake_cuvs.fail("cuvsIvfFlatSearch", REFUSED)

    with pytest.raises(ListsError, match="cuvsIvfFlatSearch: RAFT failure") as raised:
        search(lists)

    assert type(raised.value) is ListsError
    assert nearest_to(lists, 3) == 3


NO_ALLOCATION = (
    "std::bad_alloc: CUDA error (failed to allocate 4096 bytes) at: cuda_memory_resource.cpp:26: "
)
"""RMM's message for an allocation that fails for another reason than memory."""


def test_a_device_that_is_lost_while_memory_is_taken_is_not_short_of_it(
    fake_cuvs: FakeCuvs, lists: CuvsLists
) -> None:
    reason = "cudaErrorIllegalAddress an illegal memory access was encountered"
    fake_cuvs.fail("cuvsIvfFlatSearch", NO_ALLOCATION + reason)

    with pytest.raises(ListsDeviceLostError):
        search(lists)


@pytest.mark.parametrize(
    "text", [OUT_OF_MEMORY, "cuBLAS error: reason=3:CUBLAS_STATUS_ALLOC_FAILED", "std::bad_alloc"]
)
def test_want_of_memory_is_known_by_what_each_library_says(
    fake_cuvs: FakeCuvs, lists: CuvsLists, text: str
) -> None:
    fake_cuvs.fail("cuvsIvfFlatSearch", text)

    with pytest.raises(OutOfMemoryError, match="no memory for a search of 4 lists for 1 queries"):
        search(lists)

    assert nearest_to(lists, 3) == 3


def test_a_machine_without_a_driver_is_no_lost_device(fake_cuvs: FakeCuvs) -> None:
    fake_cuvs.fail(
        "cuvsRMMPoolMemoryResourceEnable",
        NO_ALLOCATION + "cudaErrorInsufficientDriver CUDA driver version is insufficient",
    )

    with pytest.raises(ListsError, match="CUDA driver version is insufficient") as raised:
        CuvsLibrary(HOST, cuvs=Cuvs(fake_cuvs), streams=HOST_STREAMS)

    assert type(raised.value) is ListsError


# ---- files and versions


def test_lists_of_another_version_are_refused_before_cuvs_reads_them(
    lists: CuvsLists, tmp_path: Path
) -> None:
    lists.save(tmp_path / "lists")
    older = FakeCuvs(version=(26, 6))
    library = CuvsLibrary(HOST, cuvs=Cuvs(older), streams=HOST_STREAMS)

    with pytest.raises(ListsError, match=r"written by cuvs 26\.10, this is cuvs 26\.6"):
        library.load(tmp_path / "lists")

    assert "cuvsIvfFlatDeserialize" not in older.calls
    library.close()


@pytest.mark.parametrize("kept", [slice(0, 100), slice(0, 0)])
def test_a_file_that_lost_bytes_before_its_end_is_never_given_to_cuvs(
    cuvs: CuvsLibrary, fake_cuvs: FakeCuvs, lists: CuvsLists, tmp_path: Path, kept: slice
) -> None:
    path = tmp_path / "lists"
    lists.save(path)
    content = path.read_bytes()
    path.write_bytes(content[kept] + content[-200:])

    with pytest.raises(ListsError, match="lists is not as long as it was written"):
        cuvs.load(path)

    assert "cuvsIvfFlatDeserialize" not in fake_cuvs.calls


def test_a_missing_file_is_reported_by_its_name_alone(cuvs: CuvsLibrary, tmp_path: Path) -> None:
    with pytest.raises(ListsError, match=r"^missing cannot be read as lists$"):
        cuvs.load(tmp_path / "missing")


@pytest.mark.parametrize("version", [(26, 8), (25, 12), (27, 2)])
def test_a_version_whose_layouts_nobody_compared_is_refused_before_anything_else(
    version: tuple[int, int],
) -> None:
    fake = FakeCuvs(version=version)

    with pytest.raises(ListsError, match=r"is not supported, only 26\.6 and 26\.10 are"):
        Cuvs(fake)

    assert fake.calls == ["cuvsVersionGet"]


def test_without_cuvs_it_is_said_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libcuvs", None)

    with pytest.raises(ListsError, match="`make install-gpu` installs it"):
        load_cuvs.__wrapped__()


# ---- the fake itself: it notices


def test_the_fake_notices_a_stream_that_is_not_torchs(fake_cuvs: FakeCuvs) -> None:
    stream = HostStream()
    stream.handle = 1

    with pytest.raises(ListsError, match="on stream 1 and not on torch's"):
        CuvsLibrary(HOST, cuvs=Cuvs(fake_cuvs), streams=Streams(stream, stream))

    assert fake_cuvs.faults
    fake_cuvs.faults.clear()


def test_the_fake_notices_a_tensor_of_another_type(fake_cuvs: FakeCuvs) -> None:
    cuvs = Cuvs(fake_cuvs)
    resources, copy = ctypes.c_size_t(), TensorView(torch.zeros((2, 2)))
    cuvs.call("cuvsResourcesCreate", ctypes.byref(resources))
    cuvs.call("cuvsStreamSet", resources, HostStream.handle)

    with pytest.raises(Exception, match="bits of a tensor is 16 and not 32"):
        cuvs.call(
            "cuvsMatrixCopy",
            resources,
            TensorView(ROWS[:2, :2].contiguous()).reference,
            copy.reference,
        )

    assert fake_cuvs.faults.pop()
