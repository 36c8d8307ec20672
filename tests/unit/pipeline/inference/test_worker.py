"""The thread that owns a model, and its schedule."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

from serving.domain.errors import DependencyError
from serving.pipeline.inference.worker import Worker, first_with_work


class ScriptedQueue:
    """Returns the given values, one after the other, then that it has no work."""

    def __init__(self, has_work: Iterable[bool] = ()) -> None:
        self._answers = list(has_work)
        self.stepped = threading.Semaphore(0)
        self.failed_with: list[str] = []

    @property
    def has_work(self) -> bool:
        return self._answers.pop(0) if self._answers else False

    def has_more(self) -> None:
        self._answers.append(True)

    def step(self) -> None:
        self.stepped.release()

    def fail_all(self, error: Exception) -> None:
        self.failed_with.append(str(error))


def test_the_first_queue_with_work_has_its_turn() -> None:
    idle, busy, other = ScriptedQueue(), ScriptedQueue([True]), ScriptedQueue([True])

    assert first_with_work([idle, busy, other]) is busy
    assert first_with_work([idle, other]) is other
    assert first_with_work([idle]) is None


async def test_withdrawn_work_does_not_end_the_worker() -> None:
    worker = Worker("embedder")
    queue = ScriptedQueue([True, False])
    worker.start(queue)
    assert queue.stepped.acquire(timeout=10)
    with worker.changing():
        queue.has_more()

    assert queue.stepped.acquire(timeout=10)
    await worker.close()


async def test_closed_worker_fails_waiting_and_new_work() -> None:
    worker = Worker("embedder")
    queues = ScriptedQueue(), ScriptedQueue()
    worker.start(*queues)
    await worker.close()

    assert [queue.failed_with for queue in queues] == [["embedder: closed"]] * 2
    with pytest.raises(DependencyError, match="closed"), worker.changing():
        raise AssertionError("nothing is added to a closed worker")


async def test_a_rejected_addition_wakes_the_worker_all_the_same() -> None:
    worker = Worker("reranker")
    queue = ScriptedQueue()
    worker.start(queue)

    def refused() -> None:
        with worker.changing():
            queue.has_more()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        refused()

    assert queue.stepped.acquire(timeout=10)
    await worker.close()
