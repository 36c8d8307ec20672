from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jwt
import pydantic
import pytest

from serving.composition.authentication import (
    NotAuthenticatedError,
    open_authenticator,
    require_authentication,
)
from serving.config.settings import Settings, load_settings
from serving.domain.errors import StoreUnavailableError, UnauthenticatedError
from serving.domain.identity import Role
from serving.rpc.identity.authenticator import Authenticator
from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.unit.rpc.identity.callers import NOW, RULES, FakeApiKeys, Issuer, bearer

TOKENS = {"issuer": RULES.issuer, "audience": RULES.audience}
JWKS = "https://issuer.example/keys"


def settings(**auth: Any) -> Settings:
    return load_settings({"auth": auth})


def test_anonymous_service_starts_only_if_allowed() -> None:
    with pytest.raises(NotAuthenticatedError):
        require_authentication(settings())

    require_authentication(settings(allow_anonymous=True))
    require_authentication(settings(keys=True))
    require_authentication(settings(jwks=JWKS, **TOKENS))


@pytest.mark.parametrize(
    ("given", "why"),
    [({"jwks": JWKS}, "issuer and audience"), ({"jwks": "http://keys", **TOKENS}, "https")],
)
def test_settings_that_would_let_outsiders_in_are_rejected(given: Any, why: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=why):
        settings(**given)


async def test_configured_kinds_of_credentials_are_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys, issuer = FakeApiKeys(), Issuer()
    urls: list[str] = []

    def read_keys(url: str) -> Sequence[jwt.PyJWK]:
        urls.append(url)
        return issuer.keys()

    monkeypatch.setattr("serving.composition.authentication.read_key_set", read_keys)
    text = keys.make(Role.READER)
    async with open_authenticator(settings(keys=True, jwks=JWKS, **TOKENS), keys) as authenticator:
        assert set(urls) == {JWKS}
        for call in (bearer(text), bearer(issuer.token())):
            assert authenticator.caller_of("Retrieve", call).roles == frozenset({Role.READER})


def test_a_revoked_key_is_rejected_within_5_s() -> None:
    keys = FakeApiKeys()
    text = keys.make(Role.READER)

    def is_accepted(authenticator: Authenticator) -> bool:
        try:
            authenticator.caller_of("Retrieve", bearer(text))
        except UnauthenticatedError:
            return False
        return True

    async def seconds_until_rejected() -> float:
        time = asyncio.get_running_loop().time
        async with open_authenticator(settings(keys=True), keys) as authenticator:
            await asyncio.sleep(61)
            assert is_accepted(authenticator)
            keys.stored[0] = replace(keys.stored[0], revoked_at=NOW)
            revoked_at = time()
            while is_accepted(authenticator):  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.1)
            return time() - revoked_at

    assert run_in_virtual_time(seconds_until_rejected()) <= 5


async def test_no_key_is_accepted_while_keys_are_unreadable() -> None:
    keys = FakeApiKeys()
    text = keys.make(Role.READER)
    keys.failing = StoreUnavailableError("down")

    async with open_authenticator(settings(keys=True), keys) as authenticator:
        with pytest.raises(StoreUnavailableError):
            authenticator.caller_of("Retrieve", bearer(text))


async def test_unreadable_key_set_fails_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_keys(url: str) -> Sequence[jwt.PyJWK]:
        raise jwt.PyJWKClientError("down")

    monkeypatch.setattr("serving.composition.authentication.read_key_set", read_keys)
    with pytest.raises(jwt.PyJWKClientError):
        async with open_authenticator(settings(jwks=JWKS, **TOKENS), FakeApiKeys()):
            pass


async def test_access_without_credentials_is_open() -> None:
    async with open_authenticator(settings(), FakeApiKeys()) as authenticator:
        assert authenticator.is_open
