from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import grpc
import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from serving.domain.errors import PermissionDeniedError, StoreUnavailableError, UnauthenticatedError
from serving.domain.identity import ApiKey, Caller, KeyText, Role
from serving.domain.items.records import TenantName
from serving.rpc.identity.authenticator import OPEN, Authenticator, each_within_tenants, hide_from
from serving.rpc.identity.key_ring import STALE_S, KeyRing
from serving.rpc.identity.rules import ANYONE, RULES
from serving.rpc.identity.web_tokens import WebTokens, read_key_set
from serving.rpc.registration import Malformed
from tests.support.stepped_clock import SteppedClock
from tests.unit.rpc.calling import Call, service_over
from tests.unit.rpc.identity import callers
from tests.unit.rpc.identity.callers import NOW, OURS, FakeApiKeys, Issuer, bearer, door, ring_of
from trivium.v1 import catalog_service_pb2, ingest_service_pb2, retrieval_service_pb2, segment_pb2

REVOKED_WITHIN_S = 5.0
"""As docs/operating.md promises."""


def test_without_authentication_anyone_may_do_everything() -> None:
    assert OPEN.caller_of("Forget", Call()) is ANYONE
    assert OPEN.is_open
    assert not Authenticator(keys=lambda _: ANYONE).is_open


async def test_credentials_of_unaccepted_kind_are_rejected() -> None:
    gate = await door()
    for authenticator in (
        replace(gate.authenticator, keys=None),
        replace(gate.authenticator, tokens=None),
    ):
        kind = "key" if authenticator.keys is None else "token"
        call, _ = gate.accepted[f"{kind}, admin of all tenants"]
        with pytest.raises(UnauthenticatedError, match="not accepted"):
            authenticator.caller_of("Retrieve", call)


async def test_malformed_bytes_tell_a_outsider_nothing() -> None:
    service = service_over(authenticator=(await door()).authenticator)
    call = Call()

    await service.Retrieve(Malformed(), call)  # type: ignore[arg-type]

    assert call.code is grpc.StatusCode.UNAUTHENTICATED


def test_global_figures_are_hidden_from_a_tenant() -> None:
    ours_alone = catalog_service_pb2.GetStatsResponse(
        projections=[catalog_service_pb2.ProjectionStats(projection="graph")],
        index=catalog_service_pb2.IndexStats(ready=True),
        tenant=catalog_service_pb2.TenantStats(segment_count=4),
    )
    stats = catalog_service_pb2.GetStatsResponse(
        legs=[catalog_service_pb2.LegStats(leg="graph", answer_count=7)]
    )
    stats.MergeFrom(ours_alone)
    stats.projections[0].pending_count = stats.projections[0].dead_letter_count = 3
    stats.index.vector_count = 9
    ours = Caller(name="x", roles=frozenset({Role.ADMIN}), tenants=frozenset({OURS}))

    hide_from(ANYONE, RULES["GetStats"], stats)
    assert stats.index.vector_count == 9
    hide_from(ours, RULES["GetStats"], stats)

    assert stats == ours_alone


@pytest.mark.parametrize(
    ("roles", "is_shown"),
    [({Role.WRITER}, False), ({Role.WRITER, Role.READER}, True), ({Role.ADMIN}, True)],
    ids=["writer", "reader too", "admin"],
)
def test_patched_item_is_shown_to_readers_alone(roles: set[Role], is_shown: bool) -> None:
    patched = ingest_service_pb2.PatchResponse(
        segment=segment_pb2.Segment(id="a", text="We sailed."), consistency_token="t"
    )
    caller = Caller(name="x", roles=frozenset(roles), tenants=None)

    hide_from(caller, RULES["Patch"], patched)

    assert patched.HasField("segment") is is_shown
    assert patched.consistency_token == "t"


# ---------------------------------------------------------------- keys


async def test_keys_unread_for_too_long_are_not_trusted() -> None:
    keys, clock = FakeApiKeys(), SteppedClock()
    text = keys.make(Role.READER)
    ring = KeyRing(keys, monotonic=clock, now=lambda: NOW)
    await ring.refresh()

    clock.now += STALE_S
    assert ring.verify(str(text)).name == f"key {text.id}"
    clock.now += 0.1
    with pytest.raises(StoreUnavailableError):
        ring.verify(str(text))


async def test_revoked_key_is_rejected_despite_slow_reading() -> None:
    clock = SteppedClock()

    class SlowlyRead(FakeApiKeys):
        async def all(self) -> list[ApiKey]:
            found = await super().all()
            self.stored[0] = replace(found[0], revoked_at=NOW)
            clock.now += REVOKED_WITHIN_S
            return found

    keys = SlowlyRead()
    text = keys.make(Role.READER)
    ring = KeyRing(keys, monotonic=clock, now=lambda: NOW)

    await ring.refresh()
    clock.now += 0.1

    with pytest.raises(StoreUnavailableError):
        ring.verify(str(text))


async def test_key_expires_without_another_read() -> None:
    keys, now = FakeApiKeys(), [NOW]
    text = keys.make(Role.READER, expires_at=NOW + timedelta(hours=1))
    ring = await ring_of(keys, now=lambda: now[0])
    assert ring.verify(str(text)).name == f"key {text.id}"

    now[0] += timedelta(hours=1)

    with pytest.raises(UnauthenticatedError):
        ring.verify(str(text))


def test_key_text_does_not_show_its_secret() -> None:
    keys = FakeApiKeys()
    text = keys.make(Role.READER)

    assert text.secret not in repr(text)
    assert repr(keys.stored[0].secret_hash) not in repr(keys.stored[0])
    assert text.secret.encode() not in keys.stored[0].secret_hash
    assert KeyText.parse(str(text)) == text


# ---------------------------------------------------------------- tokens


async def issued() -> tuple[Issuer, WebTokens]:
    """An issuer, and a verifier that has read its keys."""
    issuer = Issuer()
    tokens = WebTokens(issuer.keys, callers.RULES)
    await tokens.refresh()
    return issuer, tokens


async def test_token_of_a_removed_key_is_rejected() -> None:
    issuer, tokens = await issued()
    text = issuer.token()
    assert tokens.verify(text).name == "token of bot"

    issuer.private = Issuer().private
    await tokens.refresh()

    with pytest.raises(UnauthenticatedError):
        tokens.verify(text)


async def test_a_token_may_name_several_tenants() -> None:
    issuer, tokens = await issued()

    tenants = tokens.verify(issuer.token(tenant=["a", "b"])).tenants
    assert tenants == frozenset({TenantName("a"), TenantName("b")})


async def test_failed_refresh_keeps_the_last_keys() -> None:
    issuer, tokens = await issued()
    issuer.failing = jwt.PyJWKClientError("down")

    with pytest.raises(jwt.PyJWKClientError):
        await tokens.refresh()

    assert tokens.verify(issuer.token()).roles == {Role.READER}


async def test_subject_of_a_token_is_printable() -> None:
    issuer, tokens = await issued()

    for subject in ("a\0b", "a\nb", "a\ud800b"):
        name = tokens.verify(issuer.token(sub=subject)).name
        assert name == "token of a\N{REPLACEMENT CHARACTER}b"
    assert tokens.verify(issuer.token(sub="Ann Müller")).name == "token of Ann Müller"


async def test_key_set_is_read_over_http() -> None:
    issuer = Issuer()
    async with serving(json.dumps(issuer.key_set()).encode()) as url:
        keys = await asyncio.to_thread(read_key_set, url)

    assert [key.key_id for key in keys] == ["k1"]


@pytest.mark.parametrize("encoded", [b"", b"{}", b"[]", b'{"keys": 1}', b'{"keys": []}', b"\xff"])
async def test_anything_but_a_key_set_is_rejected(encoded: bytes) -> None:
    async with serving(encoded) as url:
        with pytest.raises((jwt.PyJWTError, ValueError)):
            await asyncio.to_thread(read_key_set, url)


@asynccontextmanager
async def serving(body: bytes) -> AsyncIterator[str]:
    """The URL of a server that answers with these bytes."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body)

    application = web.Application()
    application.router.add_get("/keys", answer)
    async with TestServer(application) as server:
        yield str(server.make_url("/keys"))


async def test_key_of_a_tenant_implies_the_tenant() -> None:
    gate = await door()
    call, _ = gate.accepted["key, reader of ours"]
    request = retrieval_service_pb2.CompareRequest()
    service = service_over(authenticator=gate.authenticator)

    await service.Compare(request, call)

    assert request.retrieve.tenant == OURS
    assert call.code is grpc.StatusCode.INVALID_ARGUMENT  # it has no question


async def test_key_revoked_during_a_stream_ends_the_stream() -> None:
    keys = FakeApiKeys()
    call = bearer(keys.make(Role.WRITER))
    ring = await ring_of(keys)
    authenticator = Authenticator(keys=ring.verify)

    async def batches() -> AsyncIterator[ingest_service_pb2.IngestStreamRequest]:
        yield ingest_service_pb2.IngestStreamRequest()
        keys.stored[0] = replace(keys.stored[0], revoked_at=NOW)
        await ring.refresh()
        yield ingest_service_pb2.IngestStreamRequest()

    admitted = each_within_tenants(authenticator, "IngestStream", call, batches())

    assert (await anext(admitted)).tenant == OURS
    with pytest.raises(UnauthenticatedError):
        await anext(admitted)


NUMBERS = (0, -1, 1.5, 9_999_999_999, 10**400)
TEXTS = ("", "text", "9999999999")
OF_EVERY_TYPE: tuple[object, ...] = (*NUMBERS, True, *TEXTS, [], [1], ["text"], {}, {"a": 1})
CLAIMS = ("exp", "nbf", "iat", "iss", "aud", "sub", "jti", "tenant", "roles")


@pytest.mark.parametrize("claim", CLAIMS)
async def test_claims_of_any_type_are_accepted_or_rejected(claim: str) -> None:
    issuer, tokens = await issued()

    for value in OF_EVERY_TYPE:
        payload = json.dumps(issuer.claims() | {claim: value}).encode()
        text = jwt.api_jws.encode(payload, issuer.private, "ES256", headers={"kid": "k1"})
        try:
            assert tokens.verify(text).roles
        except (UnauthenticatedError, PermissionDeniedError):
            continue
