"""Embedding and searching in one call, for a process that has both."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import islice
from typing import Generic, TypeVar

from serving.domain.budget import Deadline
from serving.ports import IndexAnswer, QuestionEmbedder, VectorIndex, WantedNeighbours

Made = TypeVar("Made")

KEPT = 256
"""Vectors of the last questions: 1 MiB at 1024 dimensions."""


class EmbeddedSearch:
    """A `SemanticSearch` over an embedder and an index of this process.

    A question comes once for each leg that looks up its vector, in calls of their own, so that
    one leg's failure or delay stays its own. The vector is made once for all of them.
    """

    def __init__(self, embedder: QuestionEmbedder, index: VectorIndex) -> None:
        self._vectors = QuestionVectors(embedder.embed_query)
        self._index = index

    async def search(self, text: str, wanted: WantedNeighbours, deadline: Deadline) -> IndexAnswer:
        """Embeds a question and finds what is nearest to it."""
        started = time.perf_counter()
        vector = await self._vectors.of(text, deadline)
        embedding_s = time.perf_counter() - started
        answer = await self._index.search(vector, wanted, deadline)
        return replace(answer, embedding_s=embedding_s)


class QuestionVectors(Generic[Made]):
    """The vectors of the last questions, those that are being made included.

    The embedder folds equal questions of one batch, but takes the first as soon as it comes:
    the same question a moment later would be embedded again, in the next batch, and its leg
    would take twice as long. A vector depends on its text and on the model alone, and an
    embedder keeps its model, so that none is ever out of date.

    Args:
        make: Embeds a question by a deadline.
        kept: How many there are at most, if none is being made.
        is_kept: Whether one is also for those who ask when it is made.
    """

    def __init__(
        self,
        make: Callable[[str, Deadline], Awaitable[Made]],
        kept: int = KEPT,
        is_kept: Callable[[Made], bool] = lambda _made: True,
    ) -> None:
        self._embed = make
        self._kept = kept
        self._is_kept = is_kept
        self._made: OrderedDict[str, asyncio.Task[Made]] = OrderedDict()

    async def of(self, text: str, deadline: Deadline) -> Made:
        """The vector of a question.

        Raises:
            OverloadedError: The embedder's queue is full.
            TimeoutError: The deadline passed first.
        """
        while True:
            try:
                async with asyncio.timeout(deadline.remaining()):
                    # Who gives up must not take the vector from the others.
                    return await asyncio.shield(self._task(text, deadline))
            except TimeoutError:
                if deadline.passed:
                    raise
                # The time of whoever came first has run out; there is some left here.

    def _task(self, text: str, deadline: Deadline) -> asyncio.Task[Made]:
        task = self._made.get(text)
        if task is None:
            task = asyncio.create_task(self._make(text, deadline))
            self._made[text] = task
        self._made.move_to_end(text)
        return task

    async def _make(self, text: str, deadline: Deadline) -> Made:
        try:
            vector = await self._embed(text, deadline)
        except BaseException:
            # An error is for those who wait for it now.
            del self._made[text]
            raise
        if not self._is_kept(vector):
            del self._made[text]
        self._forget_the_oldest()
        return vector

    def _forget_the_oldest(self) -> None:
        excess = len(self._made) - self._kept
        if excess > 0:
            made = (text for text, task in self._made.items() if task.done())
            for text in list(islice(made, excess)):
                del self._made[text]
