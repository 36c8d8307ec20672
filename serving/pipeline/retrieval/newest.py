"""Answers the newest of a stream of questions: each one cancels the work for the one before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from serving.domain.budget import Deadline
from serving.domain.errors import BudgetExhaustedError, TriviumError

logger = logging.getLogger(__name__)

MAX_STREAM_S = 300.0
"""The longest time until the final question."""


class Question(Protocol):
    """A question that a newer one may replace."""

    @property
    def final(self) -> bool:
        """Whether no other one follows."""
        ...

    def repeats(self, earlier: Any) -> bool:
        """Whether the answer to an earlier question answers this one too."""
        ...


Asked = TypeVar("Asked", bound=Question)
Answer = TypeVar("Answer")


async def newest_answers(
    questions: AsyncIterator[Asked], answer: Callable[[Asked], Coroutine[Any, Any, Answer]]
) -> AsyncGenerator[tuple[Asked, Answer], None]:
    """Yields the answer to the final question, and to others that are not replaced before.

    One answer is in the making at any time, while the one before it may still end. A question that
    is not final and fails has no answer. The end of the questions without a final one is the end.

    Raises:
        BudgetExhaustedError: There was no final question within `MAX_STREAM_S`.
        Exception: Reading the questions failed, or answering the final one.
    """
    deadline = Deadline.after(MAX_STREAM_S)
    receiving: asyncio.Task[Asked | None] | None = _next_of(questions)
    newest: Asked | None = None
    work: asyncio.Task[Answer] | None = None
    replaced: asyncio.Task[Answer] | None = None
    is_answered = True
    try:
        while receiving is not None or (newest is not None and newest.final):
            awaited = [receiving, None if is_answered else work]
            await _one_of(awaited, None if receiving is None else deadline)
            if newest is not None and work is not None and work.done() and not is_answered:
                is_answered = True
                if newest.final or not _failed(work):
                    yield newest, work.result()
                    if newest.final:
                        return
            if receiving is None or not receiving.done():
                continue
            question = receiving.result()
            receiving = None if question is None or question.final else _next_of(questions)
            if question is None:
                continue
            if work is None or _has_failed(work) or not question.repeats(newest):
                _cancel(work)
                # Not for the end of a statement that was just cancelled, which takes a moment, but
                # for that of the one before, which has had the time.
                await _settled(replaced)
                replaced, work = work, asyncio.create_task(answer(question))
            newest, is_answered = question, False
    finally:
        _cancel(receiving)
        _cancel(work)
        await _settled(receiving, work, replaced)


def _next_of(questions: AsyncIterator[Asked]) -> asyncio.Task[Asked | None]:
    """Receives the next question; None at the end."""

    async def receive() -> Asked | None:
        return await anext(questions, None)

    return asyncio.create_task(receive())


async def _one_of(tasks: Sequence[asyncio.Task[Any] | None], deadline: Deadline | None) -> None:
    """Waits for the first that ends."""
    given = [task for task in tasks if task is not None]
    timeout_s = None if deadline is None else deadline.remaining()
    done, _ = await asyncio.wait(given, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    if not done:
        raise BudgetExhaustedError("waiting for the final request")


def _has_failed(work: asyncio.Task[Any]) -> bool:
    return work.done() and work.exception() is not None


def _failed(task: asyncio.Task[Any]) -> bool:
    """Whether there is no answer; an unexpected error is logged, since no caller will see it."""
    error = task.exception()
    if error is not None and not isinstance(error, TriviumError):
        logger.error("early answer failed unexpectedly", exc_info=error)
    return error is not None


def _cancel(task: asyncio.Task[Any] | None) -> None:
    # Once: a second cancellation would interrupt the end of a statement.
    if task is not None:
        task.cancel()


async def _settled(*tasks: asyncio.Task[Any] | None) -> None:
    given = [task for task in tasks if task is not None]
    await asyncio.gather(*given, return_exceptions=True)
