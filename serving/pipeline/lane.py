"""A thread that owns a model, and the queues before it, which take turns.

Each model has a lane of its own, also where two of them share an accelerator. There each
computes on a stream of its own (`models.cuda_graphs`), and the device runs the kernels of both
side by side: a question enters between two kernels of a rerank. One lane for both would let it
wait for the whole rerank, up to 25 ms, or have that cut into pieces that leave the device idle
in between; and it would wait for a model that is being loaded, which takes seconds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from serving.domain.errors import DependencyError

LEAST_STEP_S = 0.01
"""What a caller that is refused is told to wait at least."""


class LaneQueue(Protocol):
    """Work of one sort. Callers add to it; the lane's thread takes steps."""

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        ...

    def step(self) -> None:
        """Does one short piece of work. Never raises: errors belong to those who wait for it."""
        ...

    def fail_all(self, error: Exception) -> None:
        """Fails what waits."""
        ...


Turn = Callable[[], LaneQueue | None]
"""Tells whose turn it is; None if no queue has work."""


class Lane:
    """Takes one step after another, each of the queue whose turn it is.

    Args:
        name: Of the thread, and of the model in errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._closed = False
        self._step_s = LEAST_STEP_S
        self._queues: Sequence[LaneQueue] = ()
        self._turn: Turn = lambda: None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self, *queues: LaneQueue, turn: Turn | None = None) -> None:
        """Begins to serve these queues.

        Args:
            queues: All there are.
            turn: Tells whose turn it is; the first queue goes before the others if nothing does.
        """
        self._queues = queues
        self._turn = turn or partial(first_with_work, queues)
        self._thread.start()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keeps others from changing the queues meanwhile, and wakes the thread afterwards.

        Raises:
            DependencyError: The lane is closed.
        """
        with self._changed:
            if self._closed:
                raise self._closed_error()
            try:
                yield
            finally:
                self._changed.notify()

    def wake(self) -> None:
        """Has the thread look at the queues again."""
        with self._changed:
            self._changed.notify()

    @property
    def last_step_s(self) -> float:
        """How long the last step took: queues empty by steps, so there may be room after it."""
        return self._step_s

    async def close(self, timeout_s: float | None = None) -> None:
        """Refuses new work, fails what waits, and returns when the model is at rest.

        Args:
            timeout_s: How long to wait for a step; then the thread is left to end by itself.
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
                self._step_s = max(LEAST_STEP_S, time.perf_counter() - started)
        finally:
            # Whatever ends the thread, nobody may wait for it for ever.
            with self._changed:
                self._closed = True
            for queue in self._queues:
                queue.fail_all(self._closed_error())

    def _next_queue(self) -> LaneQueue | None:
        """Waits for work; None when the lane is closed."""
        with self._changed:
            while not self._closed:
                # Asked once: a caller that goes away takes its work with it, at any time.
                if (queue := self._turn()) is not None:
                    return queue
                self._changed.wait()
        return None

    def _closed_error(self) -> DependencyError:
        return DependencyError(self._name, "closed")


def first_with_work(queues: Sequence[LaneQueue]) -> LaneQueue | None:
    """The queue whose turn it is where the first go before the others."""
    return next((queue for queue in queues if queue.has_work), None)
