"""A thread that owns a model and serves its queues.

Each model has its own worker, even if two models share an accelerator. There each uses its own
stream (`models.cuda_graphs`), and the device runs the kernels of both concurrently: a question
starts between two kernels of a rerank. With one worker for both it would wait for the whole rerank,
up to 25 ms, or for one split into pieces that leave the device idle in between; and it would wait
for a model being loaded, which takes seconds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

from serving.domain.budget import Deadline
from serving.domain.errors import DependencyError

Result = TypeVar("Result")

MIN_STEP_S = 0.01
"""The least retry delay that a rejected caller is given."""


class WorkQueue(Protocol):
    """A queue of work. Callers add to it; the worker's thread takes steps."""

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""

    def step(self) -> None:
        """Does one short piece of work. Never raises: errors go to the callers' futures."""

    def fail_all(self, error: Exception) -> None:
        """Fails all queued work."""


Schedule = Callable[[], WorkQueue | None]
"""The queue to serve next; None if no queue has work."""


class Worker:
    """Takes one step after another, each of the queue that the schedule chooses."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._closed = False
        self._step_s = MIN_STEP_S
        self._queues: Sequence[WorkQueue] = ()
        self._schedule: Schedule = lambda: None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self, *queues: WorkQueue, schedule: Schedule | None = None) -> None:
        """Starts to serve these queues."""
        self._queues = queues
        self._schedule = schedule or partial(first_with_work, queues)
        self._thread.start()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Locks the queues for a change, and wakes the thread afterwards.

        Raises `DependencyError` if the worker is closed.
        """
        with self._changed:
            if self._closed:
                raise self._closed_error()
            try:
                yield
            finally:
                self._changed.notify()

    def wake(self) -> None:
        """Makes the thread check its queues again."""
        with self._changed:
            self._changed.notify()

    @property
    def last_step_s(self) -> float:
        """The duration of the last step, after which there may be room in a queue."""
        return self._step_s

    async def close(self, timeout_s: float | None = None) -> None:
        """Rejects new work, fails queued work, and returns when the thread has ended.

        A step that takes longer than `timeout_s` is not waited for.
        """
        with self._changed:
            self._closed = True
        self.wake()
        await asyncio.to_thread(self._thread.join, timeout_s)

    def _work(self) -> None:
        try:
            while (queue := self._next_queue()) is not None:
                started = time.perf_counter()
                queue.step()
                self._step_s = max(MIN_STEP_S, time.perf_counter() - started)
        finally:
            # No caller may wait for ever, whatever ended the thread.
            with self._changed:
                self._closed = True
            for queue in self._queues:
                queue.fail_all(self._closed_error())

    def _next_queue(self) -> WorkQueue | None:
        """Waits for work; None when the worker is closed."""
        with self._changed:
            while not self._closed:
                # Evaluated once: callers may withdraw their work at any time.
                if (queue := self._schedule()) is not None:
                    return queue
                self._changed.wait()
        return None

    def _closed_error(self) -> DependencyError:
        return DependencyError(self._name, "closed")


def first_with_work(queues: Sequence[WorkQueue]) -> WorkQueue | None:
    """Returns the first queue that has work."""
    return next((queue for queue in queues if queue.has_work), None)


def is_wanted(future: Future[Result], deadline: Deadline) -> bool:
    """Returns whether a caller still waits; fails the future if the deadline has passed."""
    if deadline.passed:
        fail(future, TimeoutError())
    return not future.done()


def deliver(future: Future[Result], result: Result) -> None:
    """Completes a future from a thread, unless it is cancelled or complete."""
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_result(result)


def fail(future: Future[Result], error: Exception) -> None:
    """Fails a future from a thread, unless it is cancelled or complete."""
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_exception(error)
