"""One method of an API of OpenAI's form: a request, and what can go wrong with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn

import aiohttp

from serving.domain.errors import DependencyError, OverloadedError

BUSY = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
REQUEST_REFUSED = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}

RETRY_AFTER_S = 1.0
"""When to try again if a busy service does not say it."""

MAX_RETRY_AFTER_S = 60.0

MAX_ERROR_BYTES = 16_384
"""The bytes read of an answer with an error."""

MAX_MESSAGE_CHARS = 200
"""The length to which the message of an error is cut."""


class RequestRefusedError(Exception):
    """The request was refused for what it says; the message has what the service says of it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of an API at `url`, over a client with the key in its headers.

    Errors name the dependency, such as "embedder", and the API, such as "embeddings API".
    """

    session: aiohttp.ClientSession
    url: str
    dependency: str
    api: str

    async def post(self, body: Mapping[str, Any], within_s: float) -> Any:
        """Returns the JSON of the answer; within_s above 0.

        Raises:
            TimeoutError: There was no answer in time.
            OverloadedError: The service is busy.
            RequestRefusedError: It refuses this request.
            DependencyError: It cannot be reached, or answers with an error or no JSON.
        """
        try:
            # A redirect would take texts and key to another host.
            async with (
                asyncio.timeout(within_s),
                self.session.post(self.url, json=body, allow_redirects=False) as response,
            ):
                if response.status != HTTPStatus.OK:
                    said = _message(await response.content.read(MAX_ERROR_BYTES))
                    self._refuse(response.status, response.headers, said)
                return await response.json(content_type=None)
        except aiohttp.ClientError as error:
            raise self.failed(f"{self.url}: {type(error).__name__}") from error
        except ValueError as error:
            raise self.failed("the answer is not JSON") from error

    def failed(self, why: str) -> DependencyError:
        """The error for a failure of the service; `why` must not quote a text."""
        return DependencyError(self.dependency, f"{self.api}: {why}")

    def _refuse(self, status: int, headers: Mapping[str, str], said: str) -> NoReturn:
        if status in BUSY:
            raise OverloadedError(f"the {self.api}", _retry_after_s(headers))
        answer = f"status {status} ({said})" if said else f"status {status}"
        if status in REQUEST_REFUSED:
            raise RequestRefusedError(answer)
        raise self.failed(f"{answer}; check the address, the key and the model's name")


@asynccontextmanager
async def open_endpoint(
    url: str, method: str, key: str | None, *, dependency: str, api: str
) -> AsyncIterator[Endpoint]:
    """Opens a method of the API at a base address, such as `https://host/v1`.

    The key is sent as a bearer token; None sends none.
    """
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Endpoint(session, f"{url.rstrip('/')}/{method}", dependency, api)


def _message(body: bytes) -> str:
    """The message of an error as OpenAI writes it, in one line; empty if there is none."""
    try:
        error = json.loads(body)["error"]
        message = error if isinstance(error, str) else error["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return " ".join(str(message).split())[:MAX_MESSAGE_CHARS]


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """Reads the header `Retry-After` in seconds; a date counts as if it were not there."""
    try:
        return min(max(0.0, float(headers["Retry-After"])), MAX_RETRY_AFTER_S)
    except (KeyError, ValueError):
        return RETRY_AFTER_S
