"""The vector space that answers: one, or two of them while models are migrated.

Vectors of different models cannot be compared, so a question is embedded and searched in one
space, which is chosen once. After a change of the model the previous space keeps answering and
taking writes until every row has a vector of the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from serving.domain.questions.query import Query
from serving.pipeline.index.merging import status_of
from serving.pipeline.index.vector_space import VectorSpace

logger = logging.getLogger(__name__)

POLL_S = 0.25
RELEASE_AFTER_S = 10.0
"""Requests that chose the previous space have ended by then."""


OpenSpace = Callable[[], AbstractAsyncContextManager[VectorSpace]]


class VectorSpaces:
    """The space of the current model and, during a migration, that of the previous one.

    `current` is the space of the current model, whether it answers yet or not; `previous` the one
    that answers in its place, if there is one.

    Args:
        current: The space of the current model.
        open_previous: Opens the space of the previous model; called only if rows are missing.
        release_after_s: How long the previous space stays open after its last use.
    """

    def __init__(
        self,
        current: VectorSpace,
        open_previous: OpenSpace | None = None,
        *,
        release_after_s: float = RELEASE_AFTER_S,
    ) -> None:
        self.current = current
        self.previous: VectorSpace | None = None
        self._open_previous = open_previous
        self._release_after_s = release_after_s
        self._current_answers = False

    def for_query(self, query: Query) -> VectorSpace:
        """Chooses the space for a question; a vector in the request is of the current model."""
        if self.previous is None or self._current_answers or query.vector is not None:
            return self.current
        return self.previous

    def all(self) -> list[VectorSpace]:
        """Returns every space that holds rows."""
        return [self.current] if self.previous is None else [self.current, self.previous]

    async def hand_over(self) -> None:
        """Keeps the previous space open until the current one answers.

        If the previous model cannot be loaded, this is logged and the service runs without it.
        """
        if self._open_previous is None or not await self._rows_are_missing():
            return
        try:
            async with self._open_previous() as previous:
                await self._answer_by(previous)
        except Exception:
            # A model's loader may raise anything; the service can run without it.
            logger.exception("previous model unavailable: dense is skipped until re-embedded")

    async def _rows_are_missing(self) -> bool:
        """Waits until the current index knows whether its model lacks rows."""
        while True:
            status = await status_of(self.current.index)
            if status.ready or status.incomplete:
                return status.incomplete
            await asyncio.sleep(POLL_S)

    async def _answer_by(self, previous: VectorSpace) -> None:
        try:
            while not (await status_of(self.current.index)).ready:
                if self.previous is None and (await status_of(previous.index)).ready:
                    logger.info("previous model answers until all rows are re-embedded")
                    self.previous = previous
                await asyncio.sleep(POLL_S)
            self._current_answers = True
            logger.info("all rows re-embedded: embedder.previous can be removed from the settings")
            await asyncio.sleep(self._release_after_s)
        finally:
            self.previous = None
