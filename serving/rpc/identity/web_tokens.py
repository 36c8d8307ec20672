"""JSON Web Tokens, verified with the public keys of a JWKS file or URL."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jwt

from serving.domain.errors import PermissionDeniedError, UnauthenticatedError
from serving.domain.identity import Caller, Role
from serving.domain.items.records import TenantName

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures with a public key only: never `none`, and no shared secrets."""
REFRESH_S = 60.0
FETCH_TIMEOUT_S = 5.0
MAX_JWKS_BYTES = 1024 * 1024
MAX_TOKEN_BYTES = 8192
ALL_TENANTS = "*"
_REMEMBERED = 4096
_REMEMBERED_S = 5.0
"""How long a verified token is not verified again: a key that is removed counts until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token must say."""

    issuer: str
    audience: str
    tenant_claim: str
    roles_claim: str


class _Verified(NamedTuple):
    caller: Caller
    until: float


class WebTokens:
    """Verifies tokens.

    Args:
        source: A file, or an https URL. It is read again every `REFRESH_S`; if that fails, the last
            keys stay in use.
        rules: What a token must say.
        read: Reads the source; replaced in tests.
        clock: The seconds since 1970.
    """

    def __init__(
        self,
        source: str,
        rules: TokenRules,
        *,
        read: Callable[[str], bytes] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._rules = rules
        self._read = read or read_source
        self._clock = clock
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._verified: OrderedDict[str, _Verified] = OrderedDict()

    def verify(self, text: str) -> Caller:
        """The caller of a token.

        Raises:
            UnauthenticatedError: The token is malformed, expired, or not signed by a known key.
            PermissionDeniedError: It names no tenant or no role.
        """
        known = self._verified.get(text)
        if known is not None and self._clock() < known.until:
            return known.caller
        if len(text) > MAX_TOKEN_BYTES:
            raise UnauthenticatedError(f"the token is longer than {MAX_TOKEN_BYTES} bytes")
        claims = self._claims(text)
        caller = self._caller(claims)
        self._remember(text, _Verified(caller, min(self._clock() + _REMEMBERED_S, claims["exp"])))
        return caller

    async def refresh(self) -> None:
        """Reads the public keys.

        Raises:
            OSError: The source cannot be read.
            ValueError: It is not a key set.
        """
        encoded = await asyncio.to_thread(self._read, self._source)
        try:
            keys = jwt.PyJWKSet.from_json(encoded.decode()).keys
        except (jwt.PyJWTError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a JSON Web Key Set: {error}") from error
        self._keys = {key.key_id: key for key in keys}

    def _claims(self, text: str) -> dict[str, Any]:
        try:
            key = self._keys.get(jwt.get_unverified_header(text).get("kid"))
            if key is None:
                raise UnauthenticatedError("the token is signed by an unknown key")
            claims: dict[str, Any] = jwt.decode(
                text,
                key,
                algorithms=[name for name in ALGORITHMS if name == key.algorithm_name],
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError):
            # The reason of the library can quote the token.
            raise UnauthenticatedError("the token is not valid") from None
        return claims

    def _caller(self, claims: dict[str, Any]) -> Caller:
        tenants = _texts(claims.get(self._rules.tenant_claim))
        roles = {role for role in _texts(claims.get(self._rules.roles_claim)) if role in set(Role)}
        if not tenants or not roles:
            raise PermissionDeniedError(
                f"the token needs a tenant in {self._rules.tenant_claim!r} and a role in "
                f"{self._rules.roles_claim!r}"
            )
        return Caller(
            name=f"token of {str(claims.get('sub', ''))[:128]}",
            roles=frozenset(map(Role, roles)),
            tenants=None if ALL_TENANTS in tenants else frozenset(map(TenantName, tenants)),
        )

    def _remember(self, text: str, verified: _Verified) -> None:
        self._verified[text] = verified
        self._verified.move_to_end(text)
        if len(self._verified) > _REMEMBERED:
            self._verified.popitem(last=False)


def _texts(claim: object) -> Sequence[str]:
    """The texts of a claim, which is one or a list; blank ones do not count."""
    values = claim if isinstance(claim, list) else [claim]
    return [value for value in values if isinstance(value, str) and value.strip()]


def kind_of_source(source: str) -> Literal["file", "url"]:
    """Whether a source is a file or a URL.

    Raises:
        ValueError: It is a URL that is not encrypted.
    """
    if "://" not in source:
        return "file"
    if not source.startswith("https://"):
        raise ValueError("the URL of a key set must begin with https://")
    return "url"


def read_source(source: str) -> bytes:
    """Reads a key set.

    Raises:
        OSError: It cannot be read.
        ValueError: It is too long, or its URL is not encrypted.
    """
    if kind_of_source(source) == "file":
        encoded = Path(source).read_bytes()
    else:
        with urllib.request.urlopen(source, timeout=FETCH_TIMEOUT_S) as response:
            encoded = response.read(MAX_JWKS_BYTES + 1)
    if len(encoded) > MAX_JWKS_BYTES:
        raise ValueError(f"a key set has at most {MAX_JWKS_BYTES} bytes")
    return bytes(encoded)
