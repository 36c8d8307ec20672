"""Answers the newest of a stream of questions: each one cancels the work for the one before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

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
    newest = _Newest(questions, answer, Deadline.after(MAX_STREAM_S))
    try:
        while await newest.something_happened():
            if (answered := newest.take_answer()) is not None:
                yield answered
                if answered[0].final:
                    return
            await newest.take_question()
    finally:
        await newest.end()


class _Newest(Generic[Asked, Answer]):
    """The newest question and its answer in the making."""

    def __init__(
        self,
        questions: AsyncIterator[Asked],
        answer: Callable[[Asked], Coroutine[Any, Any, Answer]],
        deadline: Deadline,
    ) -> None:
        self._questions = questions
        self._answer = answer
        self._deadline = deadline
        self._receiving: asyncio.Task[Asked | None] | None = self._receive()
        self._question: Asked | None = None
        self._work: asyncio.Task[Answer] | None = None
        self._replaced: asyncio.Task[Answer] | None = None
        self._answered = True

    async def something_happened(self) -> bool:
        """Waits for a question or an answer; False at the end of both."""
        tasks: list[asyncio.Task[Any]] = []
        if self._receiving is not None:
            tasks.append(self._receiving)
        if self._work is not None and not self._answered:
            tasks.append(self._work)
        if self._receiving is None and not self._final:
            return False
        timeout_s = None if self._receiving is None else self._deadline.remaining()
        done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise BudgetExhaustedError("waiting for the final request")
        return True

    @property
    def _final(self) -> bool:
        return self._question is not None and self._question.final

    def take_answer(self) -> tuple[Asked, Answer] | None:
        """Returns a new answer; None if there is none, or a failure of one that is not final."""
        if self._question is None or self._work is None or self._answered or not self._work.done():
            return None
        self._answered = True
        if not self._final and _failed(self._work):
            return None
        return self._question, self._work.result()

    async def take_question(self) -> None:
        """Begins to answer the next question, if it is there."""
        if self._receiving is None or not self._receiving.done():
            return
        question = self._receiving.result()
        self._receiving = None if question is None or question.final else self._receive()
        if question is not None:
            if not self._has_same(question):
                await self._replace(question)
            self._question, self._answered = question, False

    def _has_same(self, question: Asked) -> bool:
        """Whether what is answered, or was, answers this question too."""
        if self._work is None or not question.repeats(self._question):
            return False
        return not self._work.done() or self._work.exception() is None

    async def _replace(self, question: Asked) -> None:
        _cancel(self._work)
        # Not for the end of a statement that was just cancelled, which takes a moment, but for that
        # of the one before, which has had the time.
        await _settled(self._replaced)
        self._replaced = self._work
        self._work = asyncio.create_task(self._answer(question))

    def _receive(self) -> asyncio.Task[Asked | None]:
        async def receive() -> Asked | None:
            return await anext(self._questions, None)

        return asyncio.create_task(receive())

    async def end(self) -> None:
        """Cancels what is left, and waits for its end."""
        _cancel(self._receiving)
        _cancel(self._work)
        await _settled(self._receiving, self._work, self._replaced)


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
