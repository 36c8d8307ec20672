"""The vector spaces that questions are asked in: one model's, or two while one follows another.

Vectors of different models do not compare. So a question is embedded and searched in one space,
chosen once. After a change of the model the space before goes on answering,
and taking in what is written, until every row has a vector of the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from serving.domain.query import Query
from serving.pipeline.index_answers import status_of
from serving.ports import Embedder, SemanticSearch, VectorIndex

logger = logging.getLogger(__name__)

POLL_S = 0.25
RELEASE_AFTER_S = 10.0
"""What was asked in the space before is answered by then, and it can go."""


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """One model's embedder, and the index of the rows that it embedded.

    `semantic` is there where both run elsewhere and together: asked with a question's text,
    they spare its vector the way here and back.
    """

    embedder: Embedder
    index: VectorIndex
    semantic: SemanticSearch | None = None


OpenSpace = Callable[[], AbstractAsyncContextManager[VectorSpace]]


class VectorSpaces:
    """The space of the model in use and, while its rows are being made, the one before.

    `current` is that of the model in use, whether it answers yet or not; `previous` the one
    that still answers for it, if there is one.

    Args:
        current: The space of the model in use.
        open_previous: Opens the space of the model before; asked only if it is needed.
        release_after_s: How long the space before stays after it was last asked.
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
        """The space to ask in; a vector that the caller made can only be of the model in use."""
        if self.previous is None or self._current_answers or query.vector is not None:
            return self.current
        return self.previous

    def all(self) -> list[VectorSpace]:
        """Every space that holds rows."""
        return [self.current] if self.previous is None else [self.current, self.previous]

    async def hand_over(self) -> None:
        """Keeps the space before open until the current one answers; returns when that is done.

        A model before that cannot be loaded is logged and done without.
        """
        if self._open_previous is None or not await self._rows_are_missing():
            return
        try:
            async with self._open_previous() as previous:
                await self._keep_until_current_answers(previous)
        except Exception:
            # Whatever a model's loader raises: the service can do without it, and says so.
            logger.exception("the previous model is not to be had; dense is skipped meanwhile")

    async def _rows_are_missing(self) -> bool:
        """Whether the model in use lacks rows; waits until its index can tell."""
        while True:
            status = await status_of(self.current.index)
            if status.ready or status.incomplete:
                return status.incomplete
            await asyncio.sleep(POLL_S)

    async def _keep_until_current_answers(self, previous: VectorSpace) -> None:
        try:
            while not (await status_of(self.current.index)).ready:
                if self.previous is None and (await status_of(previous.index)).ready:
                    logger.info("the previous model answers until all rows are embedded anew")
                    self.previous = previous
                await asyncio.sleep(POLL_S)
            self._current_answers = True
            logger.info("all rows are embedded anew: embedder.previous can go from the settings")
            await asyncio.sleep(self._release_after_s)
        finally:
            self.previous = None
