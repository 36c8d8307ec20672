"""The RPCs of AdminService: each reads its request, calls the stores and writes the response."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from serving.domain.errors import InvalidRequestError, Violation
from serving.domain.identity import ApiKey, KeyText, Role
from serving.domain.items.records import TenantName
from serving.rpc.boundary import rpc
from serving.rpc.check import MAX_ID_BYTES, Checker
from serving.rpc.items import timestamp
from serving.rpc.pages import NO_TOKEN, Page, read_page, to_page
from serving.rpc.use_cases import Rpcs
from trivium.v1 import admin_service_pb2 as pb

_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_ROLES = {getattr(pb, f"ROLE_{role.name}"): role for role in Role}
_SENT_ROLES = {role: value for value, role in _ROLES.items()}


class AdminService(Rpcs):
    """Tenants, API keys, and who changed what."""

    @rpc
    async def ListTenants(self, request: pb.ListTenantsRequest) -> pb.ListTenantsResponse:
        """Lists all tenants in pages."""
        page = read_page(request)
        found = await self.use_cases.catalog.list_tenants(*page)
        tenants = [
            pb.Tenant(
                name=each.name,
                segment_count=each.segments,
                fact_count=each.facts,
                text_bytes=each.text_bytes,
                newest_event_time=timestamp(each.newest),
                updated_at=timestamp(each.updated_at),
                text_search_config=each.text_search_config,
                time_zone=each.time_zone,
            )
            for each in found
        ]
        next_page_token = page.next_token([each.name for each in found])
        return pb.ListTenantsResponse(tenants=tenants, next_page_token=next_page_token)

    @rpc
    async def ListKeys(self, request: pb.ListKeysRequest) -> pb.ListKeysResponse:
        """Lists all API keys in pages, the newest first."""
        page = read_page(request)
        shown, next_page_token = _newest_first(await self.use_cases.keys.all(), page)
        return pb.ListKeysResponse(
            keys=map(from_key, shown),
            next_page_token=next_page_token,
            accepted=self.authenticator.keys is not None,
        )

    @rpc
    async def CreateKey(self, request: pb.CreateKeyRequest) -> pb.CreateKeyResponse:
        """Makes an API key."""
        text, key = to_new_key(request, self._now())
        await self.use_cases.keys.add(key)
        return pb.CreateKeyResponse(secret=str(text), key=from_key(key))

    @rpc
    async def RevokeKey(self, request: pb.RevokeKeyRequest) -> pb.RevokeKeyResponse:
        """Revokes an API key."""
        id_ = to_key_id(request)
        if not await self.use_cases.keys.revoke(id_):
            unknown = f"there is no key {id_!r}; ListKeys has the ids"
            raise InvalidRequestError([Violation("id", unknown)])
        return pb.RevokeKeyResponse()

    @rpc
    async def ListAuditEntries(
        self, request: pb.ListAuditEntriesRequest
    ) -> pb.ListAuditEntriesResponse:
        """Lists who changed what, in pages."""
        page, before = to_audit_page(request)
        found = await self.use_cases.audit_log.entries(request.tenant, before, page.size)
        entries = [
            pb.AuditEntry(
                at=timestamp(each.at),
                caller=each.caller,
                rpc=each.rpc,
                tenant=each.tenant,
                created_count=each.created,
                updated_count=each.updated,
                erased_count=each.erased,
                key_id=each.key_id,
            )
            for each in found
        ]
        next_page_token = page.next_token([str(each.number) for each in found])
        return pb.ListAuditEntriesResponse(entries=entries, next_page_token=next_page_token)


def _newest_first(keys: Sequence[ApiKey], page: Page) -> tuple[Sequence[ApiKey], str]:
    """The page of all keys, which are in the order of their creation, and the token of the next.

    Raises `InvalidRequestError` if there is no key that the page is after.
    """
    newest_first = list(reversed(keys))
    ids = [key.id for key in newest_first]
    # Keys are added and never deleted: the page goes on after the same one.
    if page.after and page.after not in ids:
        raise InvalidRequestError([Violation("page_token", NO_TOKEN)])
    first = ids.index(page.after) + 1 if page.after else 0
    shown = newest_first[first : first + page.size]
    return shown, page.next_token([key.id for key in shown])


def from_key(key: ApiKey) -> pb.ApiKey:
    """Writes a key without its secret."""
    return pb.ApiKey(
        id=key.id,
        roles=sorted(_SENT_ROLES[role] for role in key.roles),
        tenant=key.tenant or "",
        note=key.note,
        created_at=timestamp(key.created_at),
        expires_at=timestamp(key.expires_at),
        revoked_at=timestamp(key.revoked_at),
    )


def to_new_key(request: pb.CreateKeyRequest, now: datetime) -> tuple[KeyText, ApiKey]:
    """Reads a CreateKeyRequest, and makes its key."""
    with Checker() as check:
        if not request.roles:
            check.reject("roles", "must not be empty")
        for place, role in enumerate(request.roles):
            if role not in _ROLES:
                check.reject(f"roles[{place}]", "must be a role")
        if bool(request.tenant) == request.all_tenants:
            check.reject("tenant", "give either tenant or all_tenants")
        elif not request.all_tenants:
            check.tenant(request.tenant)
        check.text("note", request.note, MAX_ID_BYTES)
        expires_at = check.optional_instant("expires_at", request)
        if expires_at is not None and expires_at <= now:
            check.reject("expires_at", "must be in the future")
    return ApiKey.new(
        frozenset(_ROLES[role] for role in request.roles),
        TenantName(request.tenant) if request.tenant else None,
        now,
        note=request.note,
        expires_at=expires_at,
    )


def to_key_id(request: pb.RevokeKeyRequest) -> str:
    """Reads a RevokeKeyRequest."""
    with Checker() as check:
        return check.text("id", request.id, MAX_ID_BYTES, required=True)


def to_audit_page(request: pb.ListAuditEntriesRequest) -> tuple[Page, int | None]:
    """Reads a ListAuditEntriesRequest: the page, and the number that its entries are below."""
    with Checker() as check:
        check.text("tenant", request.tenant, MAX_ID_BYTES)
        page = to_page(check, request)
        if page.after and not _NUMBER.fullmatch(page.after):
            check.reject("page_token", NO_TOKEN)
    return page, int(page.after) if page.after else None
