"""JSON Web Tokens, verified with the public keys of an identity provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import jwt

from serving.config.settings import AuthSettings
from serving.domain.errors import PermissionDeniedError, UnauthenticatedError
from serving.domain.identity import Caller, Role
from serving.domain.items.records import TenantName

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures with a public key only: never `none`, and no shared secrets."""
REFRESH_S = 60.0
FETCH_TIMEOUT_S = 5.0
MAX_TOKEN_BYTES = 8192
ALL_TENANTS = "*"


class WebTokens:
    """Verifies tokens, whose required claims `rules` name.

    `read_keys` reads the public keys. It is called every `REFRESH_S`, and for no token; if that
    fails, the last keys stay in use.
    """

    def __init__(self, read_keys: Callable[[], Sequence[jwt.PyJWK]], rules: AuthSettings) -> None:
        self._read_keys = read_keys
        self._rules = rules
        self._keys: dict[str | None, jwt.PyJWK] = {}

    def verify(self, text: str) -> Caller:
        """The caller of a token.

        Raises:
            UnauthenticatedError: The token is malformed, expired, or not signed by a known key.
            PermissionDeniedError: It names no tenant or no role.
        """
        if len(text) > MAX_TOKEN_BYTES:
            raise UnauthenticatedError(f"the token is longer than {MAX_TOKEN_BYTES} bytes")
        return self._caller(self._claims(text))

    async def refresh(self) -> None:
        """Reads the public keys; raises as `read_key_set`."""
        self._keys = {key.key_id: key for key in await asyncio.to_thread(self._read_keys)}

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
            if not isinstance(claims["exp"], (int, float)):  # the library reads a text as well
                raise TypeError("exp is not a number")
            if not _is_canonical(text.rpartition(".")[2]):
                raise ValueError("the signature can be written otherwise")
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
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
            name=f"token of {_printable(str(claims.get('sub', ''))[:128])}",
            roles=frozenset(map(Role, roles)),
            tenants=None if ALL_TENANTS in tenants else frozenset(map(TenantName, tenants)),
        )


def _is_canonical(encoded: str) -> bool:
    """Whether base64url has no other characters and bits than those that are read.

    A token has one form then, by which a proxy can count its calls.
    """
    return jwt.utils.base64url_encode(jwt.utils.base64url_decode(encoded)) == encoded.encode()


def _printable(text: str) -> str:
    """A text that every log and every store takes: JSON may have NUL and half of a character."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _texts(claim: object) -> Sequence[str]:
    """The texts of a claim, which is one or a list; blank ones do not count."""
    values = claim if isinstance(claim, list) else [claim]
    return [value for value in values if isinstance(value, str) and value.strip()]


def read_key_set(url: str) -> Sequence[jwt.PyJWK]:
    """Reads the public keys of a JSON Web Key Set; those without an id are not used.

    Raises:
        jwt.PyJWTError, ValueError: They cannot be read, or are not a key set.
    """
    client = jwt.PyJWKClient(url, cache_jwk_set=False, timeout=FETCH_TIMEOUT_S)
    return client.get_signing_keys()
