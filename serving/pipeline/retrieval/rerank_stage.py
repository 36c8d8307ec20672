"""Reranks the head of a list if the time allows, and labels the hits if not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from serving.domain.budget import RERANKED_ORDER, Deadline
from serving.domain.errors import TooSlowError, TriviumError
from serving.domain.items.text import text_of
from serving.pipeline.retrieval.admission import SHED_REASON
from serving.pipeline.retrieval.ordering import Ordering, Stage
from serving.ports.reranking import Reranker

logger = logging.getLogger(__name__)

FORGETTING = 0.98
"""The factor that each rejection applies to the learned least time, so that one delay of the
reranker is not remembered for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankReport:
    """How the stage ended: RERANKED, or COARSE or COARSE_FALLBACK with a reason."""

    stage: Stage
    reason: str = ""
    hits: int = 0
    elapsed_s: float = 0.0


class _NotDoneError(Exception):
    """Nothing was reranked; the message says why."""

    stage = Stage.COARSE_FALLBACK


class _NotStartedError(_NotDoneError):
    """It was not started: it would take too long, or there is nothing to rerank."""

    stage = Stage.COARSE


class RerankStage:
    """Reranks the head of an ordering within the deadline, or leaves the coarse order.

    The reranker itself predicts the time of a call, since it knows its tokens. This stage only
    ensures that a reranker which did not answer at all is not called again with as little time.
    """

    def __init__(self, reranker: Reranker | None) -> None:
        self._reranker = reranker
        self._least_per_character_s = 0.0

    async def rerank(
        self, question: str, ordering: Ordering, deadline: Deadline, *, shed: bool = False
    ) -> RerankReport | None:
        """Reranks the profile's head unless that is shed; None if the profile does not rerank."""
        head = ordering.head()
        if ordering.profile.rerank is None:
            return None
        started = time.perf_counter()
        try:
            if shed:
                raise _NotStartedError(SHED_REASON)
            logits = await self._logits(question, [text_of(hit.item) for hit in head], deadline)
        except _NotDoneError as error:
            ordering.mark_coarse(error.stage)
            return RerankReport(
                stage=error.stage, reason=str(error), elapsed_s=time.perf_counter() - started
            )
        ordering.add_logits({hit.item.item: logit for hit, logit in zip(head, logits, strict=True)})
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
            raise _NotStartedError("no hit may be reranked")
        left = RERANKED_ORDER.before(deadline)
        characters = sum(map(len, texts)) + len(texts) * len(question)
        self._require_time(characters, left)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(left.remaining()):
                logits = await self._reranker.rerank(question, texts, left)
        except TimeoutError:
            self._least_per_character_s = (time.perf_counter() - started) / characters
            raise _NotDoneError("the budget ran out") from None
        except TooSlowError as error:
            raise _NotStartedError(str(error)) from None
        except TriviumError as error:
            raise _NotDoneError(str(error)) from None
        except Exception:
            logger.exception("reranker failed unexpectedly")
            raise _NotDoneError("internal error") from None
        self._least_per_character_s = 0.0
        return logits

    def _require_time(self, characters: int, left: Deadline) -> None:
        least_s = self._least_per_character_s * characters
        if least_s > left.remaining():
            self._least_per_character_s *= FORGETTING
            raise _NotStartedError(str(TooSlowError(least_s, left.remaining())))
