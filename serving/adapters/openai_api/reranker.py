"""`Reranker` over HTTP, by the method `/rerank` that many servers of models share.

POST `{url}/rerank` with a `query` and `documents` answers with a `relevance_score` and the `index`
of each. Cohere, Jina, Infinity and vLLM answer with a list `results`, Voyage with `data`. Text
Embeddings Inference is asked for `texts`, and answers with a list of `index` and `score`.

Texts leave the service here. The caller sends none that is sensitive.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Self, TypeAlias

from serving.adapters.openai_api.endpoint import Endpoint, RequestRefusedError, open_endpoint
from serving.domain.budget import Deadline

TextsField: TypeAlias = Literal["documents", "texts"]

MIN_PROBABILITY = 1e-6
"""A probability of 0 or 1 has no logit."""


class ApiReranker:
    """Reranks by another service; `texts_field` is the field of the request that has the texts."""

    def __init__(self, endpoint: Endpoint, model: str, texts_field: TextsField) -> None:
        self._endpoint = endpoint
        self._model = model
        self._texts_field = texts_field

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, url: str, model: str, key: str | None, texts_field: TextsField = "documents"
    ) -> AsyncIterator[Self]:
        """Opens a reranker at a base address of the API, with the key and other arguments."""
        async with open_endpoint(
            url, "rerank", key, dependency="reranker", api="rerank API"
        ) as endpoint:
            yield cls(endpoint, model, texts_field)

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        """Returns the logit of each text's relevance, in order.

        Scores from 0 to 1 are taken for probabilities, others for logits; both give the order of
        the other service.
        """
        if not texts:
            return []
        body = {"model": self._model, "query": query, self._texts_field: list(texts)}
        try:
            answer = await self._endpoint.post(body, deadline.remaining())
        except RequestRefusedError as error:
            raise self._endpoint.failed(
                f"{error}; check the model's name and reranker.api.texts_field"
            ) from error
        scores = self._scores(answer, len(texts))
        if not all(0 <= score <= 1 for score in scores):
            return scores
        bounded = (min(max(score, MIN_PROBABILITY), 1 - MIN_PROBABILITY) for score in scores)
        return [math.log(score / (1 - score)) for score in bounded]

    def _scores(self, answer: Any, count: int) -> list[float]:
        try:
            listed: Any = (
                answer.get("results", answer.get("data")) if type(answer) is dict else answer
            )
            by_place = {
                int(one["index"]): float(one["score"] if "score" in one else one["relevance_score"])
                for one in listed
            }
            scores = [by_place[place] for place in range(count)]
        except (KeyError, TypeError, ValueError) as error:
            raise self._endpoint.failed("the answer lacks scores") from error
        if not all(map(math.isfinite, scores)):
            raise self._endpoint.failed("a score is not finite")
        return scores
