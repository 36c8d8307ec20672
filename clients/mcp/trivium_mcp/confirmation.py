"""Codes that confirm an erasure: bound to what was shown, for a while, and kept nowhere."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Sequence

from trivium import Item, Segment

VALID_FOR_S = 600


class Confirmations:
    """Issues and checks the codes of one process.

    A code is an HMAC of the caller's credentials, of the items with their texts, and of its
    expiry. If one of them changes, what would be erased is no longer what was shown.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._secret = secrets.token_bytes(32)
        self._clock = clock

    def issue(self, caller: Sequence[str], items: Sequence[Item]) -> str:
        """The code that confirms the erasure of these items by this caller."""
        return self._code(int(self._clock()) + VALID_FOR_S, caller, items)

    def confirms(self, code: str, caller: Sequence[str], items: Sequence[Item]) -> bool:
        """Whether the code was issued for exactly this, and has not expired."""
        expiry = code.partition("-")[0]
        if not expiry.isdecimal() or not expiry.isascii() or int(expiry) < self._clock():
            return False
        return hmac.compare_digest(code.encode(), self._code(expiry, caller, items).encode())

    def _code(self, expiry: int | str, caller: Sequence[str], items: Sequence[Item]) -> str:
        shown = sorted(map(_shown, items))
        bound = json.dumps([str(expiry), list(caller), shown]).encode()
        return f"{expiry}-{hmac.new(self._secret, bound, hashlib.sha256).hexdigest()[:16]}"


def _shown(item: Item) -> tuple[str, str, str, str]:
    if isinstance(item, Segment):
        return "segment", item.id, item.speaker, item.text
    return "fact", item.id, "", item.statement
