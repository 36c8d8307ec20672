"""The command `python -m bench.speed.overload.cost`: what the guards of a question take of the CPU.

Rounds with and without the deadline of the call, the admission and the breakers follow one another,
and the differences of the pairs are what counts. Each question reads the counters of gRPC, as under
a light load; under more load several questions share a reading.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import click
import grpc

from bench.harness.results import number, select
from bench.reports.baselines import baseline
from serving.config.profiles import DEFAULT_PROFILE, ProfileBook
from serving.domain.breaker import Breaker
from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.admission import Admission
from serving.pipeline.retrieval.leg_runner import DEPENDENCY_OF_LEG
from serving.rpc.boundary import call_deadline, deadline_after
from serving.rpc.pending import PendingCalls

PAIRS = 200
QUESTIONS = 100
BUDGET_S = 0.1
TENANTS = 8
STORE = "store"
READS_OF_ROWS = 2


class EndingCall:
    """The context of a call that has a tenth of a second."""

    def time_remaining(self) -> float:
        """Its seconds."""
        return BUDGET_S


def guarded_questions(profile: Profile) -> Callable[[], None]:
    """Makes a round of questions that pass every guard; none does any work."""
    read_each_time = itertools.count().__next__  # as a clock: a second later at each look
    admission = Admission(pending=PendingCalls(read_each_time).count)
    breakers = {name: Breaker(name) for name in {STORE, *DEPENDENCY_OF_LEG.values()}}
    asked = [breakers[DEPENDENCY_OF_LEG[leg.name]] for leg in profile.legs if not leg.leans_on]
    asked += [breakers[STORE]] * READS_OF_ROWS
    call = EndingCall()

    def round_() -> None:
        for number_ in range(QUESTIONS):
            tenant = TenantName(f"tenant-{number_ % TENANTS}")
            with call_deadline(call):
                deadline = deadline_after(BUDGET_S)
                with admission.admitted(tenant, profile, deadline):
                    question = object()
                    for breaker in asked:
                        with breaker.guard(question, deadline):
                            pass

    return round_


def bare_questions() -> None:
    """A round of questions that pass none: each has a deadline all the same."""
    for _ in range(QUESTIONS):
        Deadline.after(BUDGET_S)


def cpu_us(round_: Callable[[], None]) -> float:
    """The CPU time of a question of a round, in microseconds."""
    started = time.process_time()
    round_()
    return (time.process_time() - started) / QUESTIONS * 1e6


def measured(pairs: int = PAIRS) -> float:
    """The median of what the guards of a question take, in microseconds of CPU time."""
    guarded = guarded_questions(ProfileBook.load()[DEFAULT_PROFILE])
    with _listening():
        return statistics.median(cpu_us(guarded) - cpu_us(bare_questions) for _ in range(pairs))


@contextmanager
def _listening() -> Iterator[None]:
    """A server of this process, whose counters are read."""
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield
        finally:
            server.stop(grace=None).wait()


def answer_ms() -> float:
    """The least CPU time of an answer in the baseline of the load, in milliseconds."""
    loads = select(baseline("speed/load"), "load")
    found = [number(each, "measured", "cpu", "total_ms") for each in loads]
    return min(each for each in found if each is not None)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure what the guards of a question take of the CPU."""
    guards_us, answer = measured(), answer_ms()
    click.echo(
        f"{guards_us:.0f} us a question, {guards_us / answer / 1e3:.2%} of the {answer:.1f} ms "
        "of an answer"
    )


if __name__ == "__main__":
    main()
