"""From how many rows on lists pay on this machine: both ways of searching are timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from serving.adapters.vector_index.exact_scan import LEAST_HEAD
from serving.adapters.vector_index.inverted_lists import ListsLibrary
from serving.domain.index_costs import Line, exact_max_rows

TIMED_ROWS = {"cpu": (4_096, 16_384), "cuda": (65_536, 262_144)}
"""By kind of device: enough for a scan to take longer than what comes with every search."""

TRAINED_PER_LIST = 16
"""Centres of random vectors are no better for more of them."""

ROWS_PER_LIST = 64

PROBED = 16
"""One list in so many is probed: what 100,000 rows take for a recall of .98."""

MADE_AT_ONCE = 16_384

REPETITIONS = 9

SEED = 0


def measured_exact_max_rows(
    library: ListsLibrary,
    dimension: int,
    *,
    device: str = "cpu",
    timed_rows: Sequence[int] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> int:
    """Times scans and searches of lists, one query each, and finds where lists pay.

    Random vectors do: what a search costs depends on how many rows it reads, not on which it
    finds. Takes about a second.

    Raises:
        OutOfMemoryError: So many rows do not fit into lists.
        torch.OutOfMemoryError: They do not fit beside what there is.
    """
    timed_rows = timed_rows or TIMED_ROWS[torch.device(device).type]
    generator = torch.Generator(device).manual_seed(SEED)
    vectors = torch.empty((max(timed_rows), dimension), dtype=torch.float16, device=device)
    for start in range(0, len(vectors), MADE_AT_ONCE):
        part = vectors[start : start + MADE_AT_ONCE]
        rows = torch.randn(part.shape, generator=generator, device=device)
        part.copy_(torch.nn.functional.normalize(rows))
    query = vectors[:1].float()
    exact = [(count, _scan_s(vectors[:count], query, clock)) for count in timed_rows]
    lists = [(count, _lists_s(library, vectors[:count], query, clock)) for count in timed_rows]
    return exact_max_rows(Line.through(exact), Line.through(lists))


def _scan_s(vectors: torch.Tensor, query: torch.Tensor, clock: Callable[[], float]) -> float:
    def scan() -> None:
        scores = (vectors @ query[0].half()).float()
        torch.topk(scores, min(LEAST_HEAD, len(vectors))).indices.cpu()

    return _least_s(scan, clock)


def _lists_s(
    library: ListsLibrary,
    vectors: torch.Tensor,
    query: torch.Tensor,
    clock: Callable[[], float],
) -> float:
    n_lists = max(1, len(vectors) // ROWS_PER_LIST)
    lists = library.train(vectors[: TRAINED_PER_LIST * n_lists], n_lists)
    try:
        lists.extend(vectors, torch.arange(len(vectors), device=vectors.device))
        n_probes = max(1, n_lists // PROBED)
        return _least_s(lambda: lists.search(query, LEAST_HEAD, n_probes, None).slots.cpu(), clock)
    finally:
        lists.close()


def _least_s(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """The least of several times: what else runs on the machine only ever adds."""
    times = []
    for _ in range(REPETITIONS):
        began = clock()
        work()
        times.append(clock() - began)
    return min(times)
