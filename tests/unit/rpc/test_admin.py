"""The RPCs of administrators: tenants and API keys."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from serving.domain.identity import KeyText, Role
from serving.domain.items.records import TenantName
from serving.ports.audit_log import Actor, AuditEntry, present_actor
from serving.ports.memory_store import Batch
from serving.rpc.identity.authenticator import OPEN, Authenticator
from serving.rpc.identity.key_ring import KeyRing
from serving.rpc.identity.rules import RULES
from serving.rpc.registration import METHODS
from tests.fakes.store import InMemoryStore
from tests.support.builders import NOON, segment
from tests.unit.rpc.calling import Call, service_over
from tests.unit.rpc.identity.callers import OURS, THEIRS, FakeApiKeys, bearer
from trivium.v1 import admin_service_pb2 as pb

NOW = NOON
UNKNOWN_ROLE: Any = 99


class Administered:
    """A service with keys, called by an administrator of all tenants."""

    def __init__(self) -> None:
        self.keys = FakeApiKeys()
        self.store = InMemoryStore()
        self.text = self.keys.make(Role.ADMIN, tenant=None)
        self.ring = KeyRing(self.keys, now=lambda: NOW, monotonic=lambda: 0.0)
        self.service = service_over(
            {"keys": self.keys, "catalog": self.store},
            authenticator=Authenticator(keys=self.ring.verify),
            now=lambda: NOW,
        )

    async def call(self, request: Message, text: KeyText | None = None) -> Any:
        """The answer to a request; raises ValueError with the status of an error."""
        method = type(request).__name__.removesuffix("Request")
        await self.ring.refresh()
        call = bearer(text or self.text)
        answer = await getattr(self.service, method)(request, call)
        if call.code is not grpc.StatusCode.OK:
            raise ValueError(f"{call.code.name}: {call.details}")
        return answer


@pytest.fixture
def administered() -> Administered:
    return Administered()


async def test_made_key_opens_until_it_is_revoked(administered: Administered) -> None:
    ends = NOW + timedelta(days=1)
    asked = pb.CreateKeyRequest(roles=[pb.ROLE_READER], tenant=OURS, note="the bot")
    asked.expires_at.FromDatetime(ends)

    made = await administered.call(asked)

    text = KeyText.parse(made.secret)
    assert text is not None
    (_, stored) = administered.keys.stored
    assert stored.roles == frozenset({Role.READER})
    assert (stored.tenant, stored.note) == (OURS, "the bot")
    assert (stored.created_at, stored.expires_at) == (NOW, ends)
    await administered.ring.refresh()
    assert administered.ring.verify(made.secret).tenants == frozenset({OURS})
    await administered.call(pb.RevokeKeyRequest(id=text.id))
    await administered.ring.refresh()
    with pytest.raises(Exception, match="not valid"):
        administered.ring.verify(made.secret)


async def test_secret_of_a_key_is_answered_once(administered: Administered) -> None:
    made = await administered.call(pb.CreateKeyRequest(roles=[pb.ROLE_READER], all_tenants=True))

    listed = await administered.call(pb.ListKeysRequest())

    secret = made.secret.split("_", maxsplit=2)[2]
    assert secret not in str(listed)
    assert secret not in str(made.key)
    assert secret not in repr(administered.keys.stored)
    assert listed.keys[0] == made.key


async def test_keys_come_in_pages_newest_first(administered: Administered) -> None:
    made = [administered.text, *(administered.keys.make(Role.READER) for _ in range(2))]

    first = await administered.call(pb.ListKeysRequest(page_size=2))
    administered.keys.make(Role.READER)  # meanwhile
    rest = pb.ListKeysRequest(page_size=2, page_token=first.next_page_token)
    second = await administered.call(rest)

    assert [key.id for key in (*first.keys, *second.keys)] == [key.id for key in reversed(made)]
    assert (second.next_page_token, second.accepted) == ("", True)


async def test_page_after_an_unknown_key_is_rejected(administered: Administered) -> None:
    with pytest.raises(ValueError, match="page_token: must be the next_page_token"):
        await administered.call(pb.ListKeysRequest(page_token=f"after:{'0' * 16}"))


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.CreateKeyRequest(tenant=OURS), "roles: must not be empty"),
        (pb.CreateKeyRequest(roles=[pb.ROLE_UNSPECIFIED], tenant=OURS), "roles[0]: must be a role"),
        (pb.CreateKeyRequest(roles=[UNKNOWN_ROLE], tenant=OURS), "roles[0]: must be a role"),
        (pb.CreateKeyRequest(roles=[pb.ROLE_ADMIN]), "tenant: give either tenant or all_tenants"),
        (
            pb.CreateKeyRequest(roles=[pb.ROLE_READER], tenant="a", all_tenants=True),
            "tenant: give either",
        ),
        (pb.CreateKeyRequest(roles=[pb.ROLE_READER], tenant=" "), "tenant: must not be blank"),
        (
            pb.CreateKeyRequest(roles=[pb.ROLE_READER], tenant="a", note="n" * 257),
            "note: must be at most",
        ),
        (
            pb.CreateKeyRequest(roles=[pb.ROLE_READER], tenant="a", expires_at={"seconds": 1}),
            "expires_at: must",
        ),
        (pb.RevokeKeyRequest(), "id: must not be blank"),
        (pb.RevokeKeyRequest(id="0" * 16), "id: there is no key"),
    ],
)
async def test_bad_request_about_a_key_names_the_field(
    administered: Administered, request_: Any, field: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"INVALID_ARGUMENT: {field}")):
        await administered.call(request_)
    assert len(administered.keys.stored) == 1


async def test_tenants_are_listed_with_their_counts(administered: Administered) -> None:
    for name in ("b", "<script>", "a"):
        await administered.store.write(Batch(TenantName(name), [segment("a", "Goa")]))

    first = await administered.call(pb.ListTenantsRequest(page_size=2))
    rest = pb.ListTenantsRequest(page_size=2, page_token=first.next_page_token)
    second = await administered.call(rest)

    assert [each.name for each in (*first.tenants, *second.tenants)] == ["<script>", "a", "b"]
    (tenant,) = second.tenants
    assert (tenant.segment_count, tenant.fact_count, tenant.text_bytes) == (1, 0, 3)
    assert tenant.newest_event_time.ToDatetime(tzinfo=NOON.tzinfo) == NOON
    assert (tenant.text_search_config, tenant.time_zone) == ("english", "UTC")


@pytest.mark.parametrize("method", [name for name, rule in RULES.items() if rule.of_all])
async def test_administrator_of_one_tenant_is_denied_all(
    administered: Administered, method: str
) -> None:
    bound = administered.keys.make(Role.ADMIN, tenant=OURS)
    request = GetMessageClass(METHODS[method].input_type)()

    with pytest.raises(ValueError, match="PERMISSION_DENIED: this call needs credentials for all"):
        await administered.call(request, bound)


@pytest.mark.parametrize("method", ["CreateKey", "RevokeKey"])
async def test_service_without_authentication_changes_no_key(method: str) -> None:
    keys = FakeApiKeys()
    text = keys.make(Role.READER)
    service = service_over({"keys": keys}, authenticator=OPEN)
    call = Call()
    made = pb.CreateKeyRequest(roles=[pb.ROLE_ADMIN], all_tenants=True)
    request = made if method == "CreateKey" else pb.RevokeKeyRequest(id=text.id)

    await getattr(service, method)(request, call)

    assert call.code is grpc.StatusCode.PERMISSION_DENIED
    assert "trivium-server keys" in call.details
    assert [key.revoked_at for key in keys.stored] == [None]


class FakeAuditLog:
    """Entries in memory, the newest first."""

    def __init__(self, *entries: AuditEntry) -> None:
        self.stored = entries

    async def entries(self, tenant: str, before: int | None, limit: int) -> list[AuditEntry]:
        found = [each for each in self.stored if not tenant or each.tenant == tenant]
        return [each for each in found if before is None or each.number < before][:limit]

    async def delete_older(self, age: timedelta) -> None:
        raise NotImplementedError


def entry(number: int, tenant: str) -> AuditEntry:
    return AuditEntry(number, NOW, f"key {number}", "Ingest", tenant, number, 0, 0, "k")


async def test_administrator_reads_the_log_of_its_tenant(administered: Administered) -> None:
    log = FakeAuditLog(*(entry(n, THEIRS if n % 2 else OURS) for n in range(5, 0, -1)))
    administered.service.use_cases.audit_log = log  # type: ignore[misc]
    bound = administered.keys.make(Role.ADMIN, tenant=OURS)

    of_all = await administered.call(pb.ListAuditEntriesRequest(page_size=3))
    rest = pb.ListAuditEntriesRequest(page_size=3, page_token=of_all.next_page_token)
    older = await administered.call(rest)
    own = await administered.call(pb.ListAuditEntriesRequest(), bound)

    assert [each.created_count for each in (*of_all.entries, *older.entries)] == [5, 4, 3, 2, 1]
    assert [(each.tenant, each.caller) for each in own.entries] == [
        (OURS, "key 4"),
        (OURS, "key 2"),
    ]
    assert (own.entries[0].rpc, own.entries[0].key_id) == ("Ingest", "k")
    assert own.entries[0].at.ToDatetime(tzinfo=NOW.tzinfo) == NOW
    with pytest.raises(ValueError, match="another tenant"):
        await administered.call(pb.ListAuditEntriesRequest(tenant=THEIRS), bound)


@pytest.mark.parametrize("token", ["5", "after:x", "after:-1", "after:²", f"after:{'9' * 19}"])
async def test_audit_page_after_no_number_is_rejected(
    administered: Administered, token: str
) -> None:
    with pytest.raises(ValueError, match="page_token: must be the next_page_token"):
        await administered.call(pb.ListAuditEntriesRequest(page_token=token))


async def test_changes_are_those_of_the_caller(administered: Administered) -> None:
    actors: list[Actor | None] = []

    class Noting(FakeApiKeys):
        async def revoke(self, key_id: str) -> bool:
            actors.append(present_actor())
            return True

    administered.service.use_cases.keys = Noting()  # type: ignore[misc]

    await administered.call(pb.RevokeKeyRequest(id="k"))

    assert actors == [Actor(f"key {administered.text.id}", "RevokeKey")]
    assert present_actor() is None
