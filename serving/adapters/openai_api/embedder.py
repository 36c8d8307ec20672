"""`Embedder` over HTTP, by OpenAI's embeddings API.

OpenAI, Ollama, Text Embeddings Inference, vLLM and others offer it: POST `{url}/embeddings` with
`model` and `input`, a list of texts, answers with one vector for each.

Texts leave the service here. A sensitive row is not embedded, so it is never sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from serving.adapters.openai_api.endpoint import Endpoint, RequestRefusedError, open_endpoint
from serving.domain.budget import Deadline
from serving.domain.errors import OverloadedError, UnsoundVectorError
from serving.ports.embedding import TEXT_FORM, Embedding, EmbeddingModel, Vector, Vectors

InputType: TypeAlias = Literal["query", "document"]

USUAL_TEXT = "What time is it?"
"""A text that no model refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiModel:
    """A model of the other service, and how it is asked.

    Prefixes are written before each text, as the model's card says. `shortened` asks for vectors
    of `dimension`, which only some models can give; the others have one dimension. `input_type`
    tells the service whether a text is a question, as Voyage wants to know.
    """

    name: str
    dimension: int
    query_prefix: str = ""
    document_prefix: str = ""
    shortened: bool = False
    input_type: bool = False

    @property
    def fingerprint(self) -> str:
        """Tells models apart whose vectors cannot be compared.

        Without the address: the same model elsewhere gives the same vectors.
        """
        of = (self.name, str(self.dimension), self.query_prefix, self.document_prefix)
        kind = ["input_type"] if self.input_type else []
        digest = sha256("\0".join([*of, TEXT_FORM, *kind]).encode()).hexdigest()
        return f"api-{digest[:32]}"


class ApiEmbedder:
    """Embeds by another service. A text is sent whole and has one vector.

    `timeout_s` limits a request for documents, of at most `batch` texts; that of a question is its
    deadline. Documents are tried again by the projection, which waits longer after each failure.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: ApiModel,
        *,
        batch: int = 64,
        timeout_s: float = 30.0,
        max_waiting: int = 512,
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._batch = batch
        self._timeout_s = timeout_s
        self._max_waiting = max_waiting
        self._waiting = 0

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, url: str, model: ApiModel, key: str | None, **limits: Any
    ) -> AsyncIterator[Self]:
        """Opens an embedder at a base address of the API, with the key and other arguments."""
        async with open_endpoint(
            url, "embeddings", key, dependency="embedder", api="embeddings API"
        ) as endpoint:
            yield cls(endpoint, model, **limits)

    async def model(self) -> EmbeddingModel:
        model = self._model
        return EmbeddingModel(model.fingerprint, model.dimension)

    async def embed_query(self, text: str, deadline: Deadline) -> Vector:
        """Embeds a question.

        Raises:
            TimeoutError: The deadline passed first.
            OverloadedError: Too many questions wait, or the other service is busy.
            DependencyError: It cannot be reached, or refuses the request.
            UnsoundVectorError: The vector is zero or not finite.
        """
        if self._waiting >= self._max_waiting:
            raise OverloadedError("the embedder's queue")
        self._waiting += 1
        try:
            asked = [self._model.query_prefix + text]
            found = await self._embed(asked, "query", deadline.remaining())
        finally:
            self._waiting -= 1
        return np.ascontiguousarray(found[0])

    async def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        """Embeds texts, one row each.

        Raises:
            OverloadedError: The other service is busy.
            DependencyError: It cannot be reached, did not answer in time, or refuses all texts.
            ValueError: It refuses one of these texts.
            UnsoundVectorError: A vector is zero or not finite.
        """
        made: list[Embedding] = []
        for start in range(0, len(texts), self._batch):
            some = [
                self._model.document_prefix + text for text in texts[start : start + self._batch]
            ]
            try:
                found = await self._embed(some, "document", self._timeout_s)
            except TimeoutError as error:
                raise self._endpoint.failed(f"no answer within {self._timeout_s:g} s") from error
            made += map(Embedding, np.split(found, len(some)))
        return made

    async def _embed(self, texts: Sequence[str], input_type: InputType, within_s: float) -> Vectors:
        try:
            return self._vectors(await self._answer(texts, input_type, within_s), len(texts))
        except RequestRefusedError as error:
            # Where it refuses any text, the reason is how it is asked: no text is to blame.
            try:
                await self._answer([USUAL_TEXT], input_type, within_s)
            except RequestRefusedError:
                raise self._endpoint.failed(
                    f"{error}; check the model's name and the settings"
                ) from error
            raise ValueError("the embeddings API refuses the text") from error

    async def _answer(self, texts: Sequence[str], input_type: InputType, within_s: float) -> Any:
        """Returns the JSON of the answer; within_s above 0."""
        body: dict[str, Any] = {"model": self._model.name, "input": list(texts)}
        if self._model.shortened:
            body["dimensions"] = self._model.dimension
        if self._model.input_type:
            body["input_type"] = input_type
        return await self._endpoint.post(body, within_s)

    def _vectors(self, answer: Any, count: int) -> Vectors:
        """Reads the vectors: float32 (count, dimension), rows of unit length."""
        try:
            by_place = {int(one["index"]): one["embedding"] for one in answer["data"]}
            with np.errstate(over="ignore"):  # to infinite values, which are rejected
                found = np.array([by_place[place] for place in range(count)], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise self._endpoint.failed("the answer lacks vectors") from error
        if found.shape != (count, self._model.dimension):
            wanted = f"TRIVIUM_EMBEDDER__DIMENSION is {self._model.dimension}"
            raise self._endpoint.failed(
                f"the vectors have the shape {found.shape[1:]}, but {wanted}"
            )
        lengths = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and lengths.all()):
            raise UnsoundVectorError("in the answer of the embeddings API")
        unit: Vectors = (found / lengths).astype(np.float32)
        return unit
