"""Reranking the head of a list: done if time allows, else labelled as not done."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from serving.domain.budget import Deadline
from serving.domain.errors import TooSlowError, TriviumError
from serving.domain.text import text_of
from serving.pipeline.ordering import Ordering, Stage
from serving.ports import Reranker

logger = logging.getLogger(__name__)

RESERVE_S = 0.003
"""Kept back for ordering what the reranker said and for sending it."""

FORGETTING = 0.98
"""What a refusal leaves of what is known of a reranker that did not answer in time, so that one
hold-up is not remembered for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankReport:
    """What became of the stage: RERANKED, or COARSE or COARSE_FALLBACK with a reason."""

    stage: Stage
    reason: str = ""
    hits: int = 0
    elapsed_s: float = 0.0


class _NotDoneError(Exception):
    """Nothing is reranked; the message says why."""

    stage = Stage.COARSE_FALLBACK


class _NoTimeError(_NotDoneError):
    """It was not begun since it would take too long."""

    stage = Stage.COARSE


class RerankStage:
    """Reranks the head of an ordering within the deadline, or leaves the coarse order.

    What a call costs is for the reranker to say, which knows its tokens. Here it is only seen
    that one who does not answer at all is not asked again with as little time.

    Args:
        reranker: What reranks; None if the service has none.
    """

    def __init__(self, reranker: Reranker | None) -> None:
        self._reranker = reranker
        self._least_per_character_s = 0.0

    async def rerank(
        self, question: str, ordering: Ordering, deadline: Deadline
    ) -> RerankReport | None:
        """Reranks the head that the profile asks for; None if it asks for none."""
        head = ordering.head()
        if ordering.profile.rerank is None:
            return None
        started = time.perf_counter()
        try:
            logits = await self._logits(question, [text_of(hit.item) for hit in head], deadline)
        except _NotDoneError as error:
            ordering.leave_coarse(error.stage)
            return RerankReport(
                stage=error.stage, reason=str(error), elapsed_s=time.perf_counter() - started
            )
        ordering.take_logits(
            {hit.item.item: logit for hit, logit in zip(head, logits, strict=True)}
        )
        return RerankReport(
            stage=Stage.RERANKED, hits=len(head), elapsed_s=time.perf_counter() - started
        )

    async def _logits(
        self, question: str, texts: Sequence[str], deadline: Deadline
    ) -> Sequence[float]:
        if self._reranker is None:
            raise _NotDoneError("the service has no reranker")
        if not question.strip():
            raise _NotDoneError("the request has a vector and no text")
        if not texts:
            return []
        left = deadline.earlier_by(RESERVE_S)
        characters = sum(map(len, texts)) + len(texts) * len(question)
        self._refuse_if_too_long(characters, left)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(left.remaining()):
                logits = await self._reranker.rerank(question, texts, left)
        except TimeoutError:
            self._least_per_character_s = (time.perf_counter() - started) / characters
            raise _NotDoneError("the budget ran out") from None
        except TooSlowError as error:
            raise _NoTimeError(str(error)) from None
        except TriviumError as error:
            raise _NotDoneError(str(error)) from None
        except Exception:
            logger.exception("reranker failed unexpectedly")
            raise _NotDoneError("internal error") from None
        self._least_per_character_s = 0.0
        return logits

    def _refuse_if_too_long(self, characters: int, left: Deadline) -> None:
        least_s = self._least_per_character_s * characters
        if least_s > left.remaining():
            self._least_per_character_s *= FORGETTING
            raise _NoTimeError(str(TooSlowError(least_s, left.remaining())))
