"""What holds of the embedder's queues under any load, on a device with a clock of its own.

AlternatingSchedule are those of an accelerator's worker. Only the threads are missing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.domain.budget import Deadline
from serving.pipeline.inference.embedder import AlternatingSchedule
from serving.pipeline.inference.embedding_queues import (
    MIN_ACCELERATED_TOKENS,
    BatchLimits,
    DocumentQueue,
    Documents,
    Question,
    QuestionQueue,
    QueueName,
)
from tests.fakes.simulation.simulated_device import Ran, SimulatedEncoder
from tests.support.examples import examples
from tests.support.stepped_clock import SteppedClock

Result = TypeVar("Result")

BULK_S = 0.002
AMPLE_S = 3600.0
WINDOW = 512
ROUNDING = 1 + 1e-6


@dataclass
class Request:
    """A question or a call with documents: what it had, and when it came and was answered."""

    at: float
    texts: Sequence[str]
    done_at: float | None = None

    @property
    def waited_s(self) -> float:
        assert self.done_at is not None
        return self.done_at - self.at

    @property
    def tokens(self) -> int:
        return sum(int(text.partition("*")[2]) for text in self.texts)


class Simulation:
    """Both queues before a simulated device, and the load that comes to them.

    Args:
        batch_s: What the device takes for any batch.
        token_s: What it takes for a token.
        query_tokens: Of a batch of questions; None for what suits an accelerator.
        characters: What is cut into windows at once.
    """

    def __init__(
        self,
        batch_s: float,
        token_s: float,
        *,
        query_tokens: int | None = None,
        characters: int = 65_536,
    ) -> None:
        self.clock = SteppedClock()
        self.device = SimulatedEncoder(self.clock, batch_s=batch_s, token_s=token_s)
        limits = BatchLimits.for_device(self.device.device())
        self.query_tokens = query_tokens or limits.query_tokens
        self.asked: list[Request] = []
        self._workers: list[QueueName] = []
        self._events: list[tuple[float, Callable[[], object]]] = []
        self._questions = QuestionQueue(self.device, self.query_tokens, self._note)
        self._bulk = DocumentQueue(
            self.device,
            replace(limits, bulk_characters=characters),
            self._note,
            clock=self.clock,
        )

    def query(self, at: float, text: str, budget_s: float = AMPLE_S) -> Request:
        question = Question(text, Deadline(at + budget_s, self.clock))
        self.at(at, lambda: self._questions.add(question))
        return self._watched(Request(at, [text]), question.future)

    def documents(self, at: float, texts: Sequence[str]) -> Request:
        documents = Documents(texts)
        self.at(at, lambda: self._bulk.add(documents))
        return self._watched(Request(at, texts), documents.future)

    def cancelled_query(self, at: float, text: str, after_s: float) -> None:
        question = Question(text, Deadline(at + AMPLE_S, self.clock))
        self.at(at, lambda: self._questions.add(question))
        self.at(at + after_s, question.future.cancel)

    def at(self, seconds: float, event: Callable[[], object]) -> None:
        self._events.append((seconds, event))

    def run(self) -> None:
        """Goes on until nothing is left to come or to do."""
        events = sorted(self._events, key=lambda event: event[0])
        schedule = AlternatingSchedule(self._questions, self._bulk)
        while True:
            while events and events[0][0] <= self.clock.now:
                events.pop(0)[1]()
            if (queue := schedule.next()) is not None:
                queue.step()
            elif events:
                self.clock.now = events[0][0]
            else:
                return

    def ran(self, worker: QueueName) -> list[Ran]:
        return [ran for ran, of in zip(self.device.ran, self._workers, strict=True) if of == worker]

    def longest_s(self, worker: QueueName) -> float:
        return max((ran.ended - ran.began for ran in self.ran(worker)), default=0.0)

    def _note(self, worker: QueueName, windows: int) -> None:
        self._workers.append(worker)

    def _watched(self, asked: Request, future: Future[Result]) -> Request:
        def note(answered: Future[Result]) -> None:
            if answered.exception() is None:
                asked.done_at = self.clock.now

        future.add_done_callback(note)
        self.asked.append(asked)
        return asked


def windows_until(simulation: Simulation, seconds: float) -> int:
    return sum(len(ran.windows) for ran in simulation.ran("bulk") if ran.ended <= seconds)


def numbered(sizes: Sequence[int], first: int = 1) -> list[str]:
    return [f"{number}*{tokens}" for number, tokens in enumerate(sizes, start=first)]


batch_seconds = st.floats(1e-5, 0.06)
token_seconds = st.floats(1e-7, 1e-4)
instants = st.floats(0, 0.2)
questions = st.lists(st.tuples(instants, st.integers(8, 60)), max_size=60)
calls = st.lists(
    st.tuples(instants, st.lists(st.integers(1, WINDOW), min_size=1, max_size=40)), max_size=6
)


def loaded(
    simulation: Simulation,
    asked: Sequence[tuple[float, int]],
    called: Sequence[tuple[float, Sequence[int]]],
) -> tuple[list[Request], list[Request]]:
    """Runs a load of questions and of calls with documents; both in the order they came."""
    queries = [
        simulation.query(at, text)
        for (at, _), text in zip(asked, numbered([size for _, size in asked]), strict=True)
    ]
    documents = [
        simulation.documents(at, numbered(sizes, first=1000 * number))
        for number, (at, sizes) in enumerate(called, start=1)
    ]
    simulation.run()
    return sorted(queries, key=lambda each: each.at), sorted(documents, key=lambda each: each.at)


@given(batch_seconds, token_seconds, questions, calls)
def test_questions_in_order_wait_for_one_bulk_batch(
    batch_s: float,
    token_s: float,
    asked: list[tuple[float, int]],
    called: list[tuple[float, list[int]]],
) -> None:
    simulation = Simulation(batch_s, token_s, query_tokens=100)
    queries, _ = loaded(simulation, asked, called)

    of_questions_s = simulation.longest_s("query")
    others_s = simulation.longest_s("bulk") + of_questions_s
    for place, query in enumerate(queries):
        ahead = [
            other for other in queries[:place] if other.done_at is None or other.done_at > query.at
        ]
        batches = 1 + sum(other.tokens for other in ahead) // simulation.query_tokens
        assert query.waited_s <= (others_s + batches * of_questions_s) * ROUNDING
        assert len([ran for ran in simulation.ran("bulk") if overlaps(ran, query)]) <= 1
    answered = [query.done_at or 0 for query in queries]
    assert answered == sorted(answered)


def overlaps(ran: Ran, query: Request) -> bool:
    assert query.done_at is not None
    return ran.ended > query.at and ran.began < query.done_at


@given(batch_seconds, token_seconds, calls)
def test_bulk_batch_takes_no_longer_than_questions_wait(
    batch_s: float, token_s: float, called: list[tuple[float, list[int]]]
) -> None:
    simulation = Simulation(batch_s, token_s)
    loaded(simulation, [], called)

    # What costs next to nothing on an accelerator goes, and so does a window that is longer.
    least_s = simulation.device.cost_s(max(MIN_ACCELERATED_TOKENS, WINDOW))
    assert simulation.longest_s("bulk") <= max(BULK_S, least_s) * ROUNDING


@settings(max_examples=examples(25))
@given(batch_seconds, token_seconds, st.floats(1.1, 10), st.integers(1, 100))
def test_documents_go_on_while_questions_leave_the_device_time(
    batch_s: float, token_s: float, leisure: float, texts: int
) -> None:
    simulation = Simulation(batch_s, token_s)
    question_s = simulation.device.cost_s(38)
    gap_s = question_s * leisure
    documents = simulation.documents(0, numbered([128] * texts, first=1000))
    for number in range(150):
        simulation.query(number * gap_s, f"{number}*38")
    simulation.run()

    bulk_s = sum(ran.ended - ran.began for ran in simulation.ran("bulk"))
    # Questions together take no longer than one by one, and one more comes than gaps are over.
    assert documents.waited_s <= (bulk_s + question_s) / (1 - 1 / leisure) * ROUNDING


def test_documents_keep_most_of_device_under_questions() -> None:
    # About a 0.6B on an H100: .8 ms a batch and 1.2 us a token, with 2,000 questions a second.
    draw = random.Random(0)
    arrivals = list(accumulate(draw.expovariate(2000) for _ in range(4000)))
    texts = numbered([128] * 10_000, first=10_000)
    alone, shared = (Simulation(0.0008, 1.2e-6) for _ in range(2))
    for simulation in (alone, shared):
        simulation.documents(0, texts)
    questions = [
        shared.query(at, text) for at, text in zip(arrivals, numbered([38] * 4000), strict=True)
    ]
    for simulation in (alone, shared):
        simulation.run()

    waited = sorted(question.waited_s for question in questions)
    assert waited[int(0.99 * len(waited))] <= 0.005
    ended = arrivals[-1]
    assert shared.ran("bulk")[-1].ended > ended, "there were documents all the time"
    assert windows_until(shared, ended) >= 0.6 * windows_until(alone, ended)


@given(batch_seconds, token_seconds, calls)
def test_documents_are_encoded_in_order_of_splitting(
    batch_s: float, token_s: float, called: list[tuple[float, list[int]]]
) -> None:
    one_text_at_once = Simulation(batch_s, token_s, characters=1)
    _, documents = loaded(one_text_at_once, [], called)

    encoded = [window[0] for ran in one_text_at_once.ran("bulk") for window in ran.windows]
    came = [int(text.partition("*")[0]) for each in documents for text in each.texts]
    assert encoded == came


@given(
    batch_seconds,
    token_seconds,
    st.lists(st.tuples(instants, st.floats(0, 0.1), st.booleans()), max_size=60),
)
def test_cancelled_or_late_question_is_never_computed(
    batch_s: float, token_s: float, asked: list[tuple[float, float, bool]]
) -> None:
    simulation = Simulation(batch_s, token_s)
    given_up_at: dict[int, float] = {}
    for number, (at, after_s, is_cancelled) in enumerate(asked, start=1):
        if is_cancelled:
            simulation.cancelled_query(at, f"{number}*38", after_s)
        else:
            simulation.query(at, f"{number}*38", budget_s=after_s)
        given_up_at[number] = at + after_s
    simulation.run()

    for ran in simulation.device.ran:
        assert all(ran.began <= given_up_at[window[0]] for window in ran.windows)


@pytest.mark.parametrize(
    ("batch_s", "token_s"),
    [(0.8e-3, 0.5e-6), (3.8e-3, 3.7e-6), (53e-3, 58e-6)],
    ids=["0.6B on an H100", "0.6B on a GB10", "8B on a GB10"],
)
def test_bulk_batches_on_measured_devices_fill_their_time(batch_s: float, token_s: float) -> None:
    simulation = Simulation(batch_s, token_s)
    simulation.documents(0, numbered([128] * 2000))
    simulation.run()

    fitting = max(MIN_ACCELERATED_TOKENS, int((BULK_S - batch_s) / token_s))
    later = [sum(map(len, ran.windows)) for ran in simulation.ran("bulk")[20:-1]]
    assert all(fitting * 0.9 - 128 <= tokens <= fitting for tokens in later)
