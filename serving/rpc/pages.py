"""Reads which page of a list a request asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from serving.rpc.check import MAX_ID_BYTES, Checker

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000
NO_TOKEN = "must be the next_page_token of the previous page"
"""The fault of any other token."""
_TOKEN_PREFIX = "after:"


class Page(NamedTuple):
    """The part of a list that a request asks for: at most `size` items after the id `after`."""

    after: str
    size: int

    def next_token(self, ids: Sequence[str]) -> str:
        """The token of the page after the one with `ids`; empty if that is the last one."""
        return _TOKEN_PREFIX + ids[-1] if len(ids) == self.size else ""


class Paged(Protocol):
    """A request for a page."""

    page_token: str
    page_size: int


def read_page(request: Paged) -> Page:
    """Reads a request that has nothing but a page."""
    with Checker() as check:
        return to_page(check, request)


def to_page(check: Checker, request: Paged) -> Page:
    """Reads the page token and the page size; violations go to `check`."""
    token, size = request.page_token, request.page_size
    if token and not token.startswith(_TOKEN_PREFIX):
        check.reject("page_token", NO_TOKEN)
    check.text("page_token", token, len(_TOKEN_PREFIX) + MAX_ID_BYTES)
    if size < 0:
        check.reject("page_size", f"must not be below 0, is {size}")
    return Page(token.removeprefix(_TOKEN_PREFIX), min(size, MAX_PAGE_SIZE) or DEFAULT_PAGE_SIZE)
