"""Measures searches during rebuilds and writes."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.harness.latency import Latency
from bench.harness.processes import machine_busy_s
from bench.harness.results import Result
from bench.index.tables import REBUILT
from serving.domain.items.records import ItemKind, TenantName, segment_id
from serving.domain.questions.query import Scope
from serving.ports.embedding import Vector, Vectors
from serving.ports.index_engine import IndexEngine, IndexRow, Neighbours
from serving.ports.vector_index import WantedNeighbours

TENANT = TenantName("bench")
SCOPE = Scope(tenant=TENANT, as_of=datetime(2026, 1, 1, tzinfo=UTC))
HalfVector: TypeAlias = NDArray[np.float16]

K = 10
WANTED = WantedNeighbours(ItemKind.SEGMENT, SCOPE, K)
BATCH_ROWS = 10_000


WORST_RATIO = 3.0
"""What the p99 during a rebuild may be, by the quiet one."""

VISIBLE_MS = 50.0
"""In how long a search must find what was written before it began."""

PATIENCE = 100
"""So many searches may miss a write before it counts as lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Searches on a schedule, whether or not those before are done.

    Args:
        per_s: How many a second.
        callers: How many threads ask; a replica of the service has two.
        quiet_s: How long they ask while nothing else happens.
    """

    per_s: float
    callers: int = 2
    quiet_s: float = 10.0


class Callers:
    """Threads that search while the body of a `with` runs.

    Attributes:
        seconds: The latency of each search, counted from its scheduled time.
    """

    def __init__(self, ask: Callable[[Vector], object], queries: Vectors, load: Load) -> None:
        self._ask = ask
        self._queries = queries
        self._load = load
        self._ended = threading.Event()
        self._errors: list[BaseException] = []
        self.seconds: list[float] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(load.callers)
        ]

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self._errors and error is None:
            raise self._errors[0]

    def _run(self, first: int) -> None:
        try:
            for number in itertools.count(first, self._load.callers):
                due = self._started + number / self._load.per_s
                if self._ended.wait(due - time.perf_counter()) and number != first:
                    return
                # Each thread searches at least once, even if it is ended before that is due.
                started = min(due, time.perf_counter())
                self._ask(self._queries[number % len(self._queries)])
                self.seconds.append(time.perf_counter() - started)
        except BaseException as error:
            self._errors.append(error)


def index_row(number: int | str, vector: HalfVector) -> IndexRow:
    """A row with one vector: float16 (dimension,)."""
    return IndexRow(tenant=TENANT, item=segment_id(str(number)), vectors=vector[None])


def fill(engine: IndexEngine, vectors: Vectors) -> float:
    """Writes the vectors with numbers as ids, and returns the seconds it took."""
    started = time.perf_counter()
    halves = vectors.astype(np.float16)
    for start in range(0, len(halves), BATCH_ROWS):
        part = halves[start : start + BATCH_ROWS]
        engine.apply([index_row(start + each, vector) for each, vector in enumerate(part)], [])
    return time.perf_counter() - started


def search(engine: IndexEngine, vector: Vector) -> Neighbours:
    """The nearest of the engine's segments."""
    return engine.search(vector, WANTED)


# ---------------------------------------------------------------- a rebuild


def rebuilt_under_load(
    engine: IndexEngine, vectors: Vectors, queries: Vectors, load: Load
) -> Result:
    """Compares searches during a rebuild with those before it.

    More than a fifth of the rows is deleted at both times, which triggers the rebuild.

    Args:
        engine: It has the vectors, numbered, in lists.
        vectors: float32 (n, dimension).
        queries: float32 (b, dimension).
        load: How it is searched.
    """
    _kill_a_fifth(engine, vectors)

    def ask(vector: Vector) -> object:
        return search(engine, vector)

    with Callers(ask, queries, load) as quiet:
        threading.Event().wait(load.quiet_s)
    generation, started = engine.generation, time.perf_counter()
    elsewhere = BusyElsewhere()
    with Callers(ask, queries, load) as during:
        engine.maintain()
        rebuild_s = time.perf_counter() - started
    cores_elsewhere = elsewhere.cores()
    assert engine.generation == generation + 1, "it was not rebuilt; this is a bug"
    before, meanwhile = Latency.of(quiet.seconds), Latency.of(during.seconds)
    ratio = meanwhile.p99_ms / before.p99_ms
    return Result(
        scenario=REBUILT,
        parameters={"rows": len(vectors), "dimension": vectors.shape[1], "per_s": load.per_s},
        n=len(during.seconds),
        latency=meanwhile,
        measured={
            "quiet_p50_ms": before.p50_ms,
            "quiet_p99_ms": before.p99_ms,
            "p99_ratio": round(ratio, 2),
            "rebuild_s": round(rebuild_s, 2),
            "cores_elsewhere": cores_elsewhere,
            "goal": f"<= {WORST_RATIO:g} times: {_verdict(ratio <= WORST_RATIO)}",
        },
    )


def _cpu_now() -> tuple[float, float, float]:
    return time.perf_counter(), time.process_time(), machine_busy_s()


class BusyElsewhere:
    """The CPU use of unrelated processes from now on, which lengthens latencies.

    Args:
        read: The seconds that have passed, and of CPU those of this process and of all.
    """

    def __init__(self, read: Callable[[], tuple[float, float, float]] = _cpu_now) -> None:
        self._read = read
        self._began = read()

    def cores(self) -> float:
        """The mean number of cores that unrelated processes have used since."""
        passed_s, own_s, all_s = (
            now - began for now, began in zip(self._read(), self._began, strict=True)
        )
        return round(max(0.0, all_s - own_s) / passed_s, 2)


def _kill_a_fifth(engine: IndexEngine, vectors: Vectors) -> None:
    """Writes a quarter of the rows once more, under other names, and removes these."""
    copies = [
        index_row(f"copy {number}", vector)
        for number, vector in enumerate(vectors[: len(vectors) // 4 + 1].astype(np.float16))
    ]
    for start in range(0, len(copies), BATCH_ROWS):
        engine.apply(copies[start : start + BATCH_ROWS], [])
    engine.apply([], [(TENANT, each.item) for each in copies])


# ---------------------------------------------------------------- writes


def written_under_load(
    engine: IndexEngine, vectors: Vectors, queries: Vectors, load: Load, *, writes: int
) -> list[Result]:
    """Measures how soon a search shows a row that was written, and no longer one that was removed.

    The clock starts when `apply` has returned. `python -m bench.speed` measures the time from the
    acknowledgement of the service.

    Args:
        engine: It has the vectors, numbered.
        vectors: float32 (n, dimension).
        queries: float32 (b, dimension).
        load: How it is searched meanwhile.
        writes: How many rows are written, and removed, one by one.
    """
    news = _directions(writes, vectors.shape[1])
    written, removed = _Seen("upsert"), _Seen("delete")
    with Callers(lambda vector: search(engine, vector), queries, load) as beside:
        for number, vector in enumerate(news):
            row = index_row(f"new {number}", vector.astype(np.float16))
            seen = partial(_is_found, engine, vector, row)
            written.note(partial(engine.apply, [row], []), partial(seen, found=True))
            removed.note(
                partial(engine.apply, [], [(TENANT, row.item)]), partial(seen, found=False)
            )
    parameters = {"rows": len(vectors), "dimension": vectors.shape[1], "per_s": load.per_s}
    return [
        each.result(parameters, Latency.of(beside.seconds).p99_ms) for each in (written, removed)
    ]


def _is_found(engine: IndexEngine, vector: Vector, row: IndexRow, *, found: bool) -> bool:
    """Whether a search finds a row, or does not, as expected."""
    return any(each.item == row.item for each in search(engine, vector).candidates) is found


def _directions(count: int, dimension: int) -> Vectors:
    """Unit vectors near none of a mixture: float32 (count, dimension)."""
    random = np.random.default_rng(1)
    drawn = random.standard_normal((count, dimension), dtype=np.float32)
    made: Vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return made


class _Seen:
    """The times of writes of one kind, and of the first search that shows each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._apply_s: list[float] = []
        self._visible_s: list[float] = []
        self._searches: list[int] = []

    def note(self, write: Callable[[], None], is_seen: Callable[[], bool]) -> None:
        """Writes, and searches until the write is visible."""
        started = time.perf_counter()
        write()
        applied = time.perf_counter()
        searches = next((n for n in range(1, PATIENCE + 1) if is_seen()), None)
        assert searches is not None, f"{self._name} was not seen; this is a bug"
        self._apply_s.append(applied - started)
        self._visible_s.append(time.perf_counter() - applied)
        self._searches.append(searches)

    def result(self, parameters: dict[str, float], beside_p99_ms: float) -> Result:
        """What was measured."""
        visible, most = Latency.of(self._visible_s), max(self._searches)
        return Result(
            scenario=f"index {self._name} visible",
            parameters=parameters,
            n=len(self._visible_s),
            latency=visible,
            measured={
                "apply_p99_ms": Latency.of(self._apply_s).p99_ms,
                "searches_until_seen": most,
                "searches_p99_ms": beside_p99_ms,
                "goal": self._goal(visible, most),
            },
        )

    def _goal(self, visible: Latency, searches: int) -> str:
        if self._name == "delete":
            return f"the next search: {_verdict(searches == 1)}"
        return f"<= {VISIBLE_MS:g} ms: {_verdict(visible.max_ms <= VISIBLE_MS)}"


def _verdict(reached: bool) -> str:
    return "reached" if reached else "**missed**"
