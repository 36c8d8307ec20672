"""What a run of a fuzzer did: on the terminal, and as a record like those of the benchmarks."""

from __future__ import annotations

import re
import resource
import time
from collections.abc import Mapping
from pathlib import Path

from bench.harness.results import Result, append_record
from bench.reports.environment import describe

MAX_MEMORY_MIB = 1024
MIB = 1024 * 1024
ACCEPTED, UNDECODABLE = "accepted", "undecodable"


class Run:
    """A run that starts now, and cannot take more than `MAX_MEMORY_MIB`.

    Args:
        fuzzer: Its name.
        seed: The first seed.
    """

    def __init__(self, fuzzer: str, seed: int) -> None:
        self._fuzzer = fuzzer
        self._seed = seed
        self._started = time.perf_counter()
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_MIB * MIB,) * 2)

    def report(self, outcomes: Mapping[str, int], folder: Path) -> None:
        """Prints what became of the inputs, and writes it into a folder."""
        total = sum(outcomes.values())
        seconds = time.perf_counter() - self._started
        memory_mib = most_memory() // MIB
        print(f"{self._fuzzer}: {total} inputs in {seconds:.0f} s, at most {memory_mib} MiB")
        for outcome, times in sorted(outcomes.items(), key=lambda each: -each[1]):
            print(f"{outcome:<20} {times}")
        result = Result(
            scenario="fuzz",
            parameters={"fuzzer": self._fuzzer, "seed": self._seed},
            n=total,
            measured={
                "accepted": outcomes.get(ACCEPTED, 0),
                "undecodable": outcomes.get(UNDECODABLE, 0),
                "rejected": total - outcomes.get(ACCEPTED, 0) - outcomes.get(UNDECODABLE, 0),
                "memory_mib": memory_mib,
                "seconds": round(seconds),
            },
        )
        folder.mkdir(parents=True, exist_ok=True)
        append_record(folder, result.as_record(describe()))
        print(f"results: {folder}")


def most_memory() -> int:
    """The most memory that this process has had, in bytes.

    Not that of `getrusage`, which includes that of the process that started it.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "Linux says this of each process"
    return int(found[1]) * 1024
