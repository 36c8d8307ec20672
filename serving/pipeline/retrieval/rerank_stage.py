"""Reranks the head of a list if the time allows, and labels the hits if not."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from serving.domain.breaker import DependencyCalls
from serving.domain.budget import RERANKED_ORDER, Deadline
from serving.domain.errors import TooSlowError, TriviumError
from serving.domain.items.text import text_of
from serving.pipeline.retrieval.admission import SHED_REASON
from serving.pipeline.retrieval.order.hit import Stage
from serving.pipeline.retrieval.order.ordering import Ordering
from serving.ports.reranking import Reranker

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankReport:
    """The outcome of the stage: RERANKED, or COARSE or COARSE_FALLBACK with a reason."""

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


async def rerank_head(
    reranker: Reranker | None,
    question: str,
    ordering: Ordering,
    calls: DependencyCalls,
    deadline: Deadline,
    *,
    shed: bool = False,
) -> RerankReport | None:
    """Reranks the profile's head unless that is shed; None if the profile does not rerank.

    If it cannot be reranked within the deadline, the coarse order stands. The reranker itself
    predicts the time of a call, since it knows its tokens. Its breaker opens if it does not answer
    at all.
    """
    head = ordering.head()
    if ordering.profile.rerank is None:
        return None
    started = time.perf_counter()
    try:
        if shed:
            raise _NotStartedError(SHED_REASON)
        texts = [text_of(hit.item) for hit in head]
        logits = await _logits(reranker, question, texts, calls, deadline)
    except _NotDoneError as error:
        ordering.mark_coarse(error.stage)
        report = RerankReport(stage=error.stage, reason=str(error))
    else:
        items = [hit.item.item for hit in head]
        ordering.add_logits(dict(zip(items, logits, strict=True)))
        report = RerankReport(stage=Stage.RERANKED, hits=len(head))
    return replace(report, elapsed_s=time.perf_counter() - started)


async def _logits(
    reranker: Reranker | None,
    question: str,
    texts: Sequence[str],
    calls: DependencyCalls,
    deadline: Deadline,
) -> Sequence[float]:
    if reranker is None:
        raise _NotDoneError("the service has no reranker")
    if not question.strip():
        raise _NotDoneError("the request has a vector and no text")
    if not texts:
        raise _NotStartedError("no hit may be reranked")
    try:
        ask = partial(reranker.rerank, question, texts)
        return await calls.ask("reranker", RERANKED_ORDER.before(deadline), ask)
    except TimeoutError:
        raise _NotDoneError("the budget ran out") from None
    except TooSlowError as error:
        raise _NotStartedError(str(error)) from None
    except TriviumError as error:
        raise _NotDoneError(str(error)) from None
    except Exception:
        logger.exception("reranker failed unexpectedly")
        raise _NotDoneError("internal error") from None
