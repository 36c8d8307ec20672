"""The rule of each RPC: the role that it needs, and where its request names the tenant.

The decorator `rpc` reads this table when a method is declared: an RPC without a rule cannot be
imported. The RPCs of grpc.health.v1 have no rule, because they are open to everyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from serving.domain.errors import PermissionDeniedError
from serving.domain.identity import Caller, Role

ANYONE = Caller(name="anyone", roles=frozenset({Role.ADMIN}), tenants=None)
"""The caller of a service without authentication."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rights that an RPC requires.

    `tenant_in` is the path of the message with the field `tenant`, and maybe `tenants`: () is the
    request itself, None means that the request has no tenant. `hidden` are the paths of fields in
    the response that are about all tenants; they are cleared for a caller that is bound to some.
    `stored` are those that show what is stored, cleared for a caller of a write that may not read.
    What is `of_all` tenants is not for a caller that is bound to some. What `outlasts` the lack of
    authentication, such as a key, is not for anyone on a service that has none.
    """

    role: Role
    tenant_in: tuple[str, ...] | None = ()
    hidden: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    of_all: bool = False
    outlasts: bool = False

    def require(self, caller: Caller) -> None:
        """Raises `PermissionDeniedError` for a caller that may not call the RPC for any tenant."""
        caller.require(self.role)
        if self.of_all and caller.tenants is not None:
            raise PermissionDeniedError("this call needs credentials for all tenants")
        if self.outlasts and caller is ANYONE:
            raise PermissionDeniedError(
                "the service has no authentication: `trivium-server keys` makes and revokes keys "
                "(docs/security.md)"
            )


RULES: Mapping[str, Rule] = {
    "Retrieve": Rule(Role.READER),
    "RetrieveBatch": Rule(Role.READER),
    "RetrieveStream": Rule(Role.READER, tenant_in=("retrieve",)),
    "DescribeEntity": Rule(Role.READER),
    "Warm": Rule(Role.READER),
    "ListProfiles": Rule(Role.READER, tenant_in=None),
    "Compare": Rule(Role.READER, tenant_in=("retrieve",)),
    "ExplainAbsence": Rule(Role.READER, tenant_in=("retrieve",)),
    "Ingest": Rule(Role.WRITER),
    "IngestStream": Rule(Role.WRITER),
    "Patch": Rule(Role.WRITER, stored=("segment", "fact")),
    "Forget": Rule(Role.ERASER),
    "GetSegments": Rule(Role.READER),
    "GetFacts": Rule(Role.READER),
    "ListSegments": Rule(Role.READER),
    "ListFacts": Rule(Role.READER),
    "WatchChanges": Rule(Role.READER),
    "GetStats": Rule(
        Role.READER,
        hidden=(
            "projections.pending_count",
            "projections.dead_letter_count",
            "index.vector_count",
            "legs",
        ),
    ),
    "ListTenants": Rule(Role.ADMIN, tenant_in=None, of_all=True),
    "ListAuditEntries": Rule(Role.ADMIN),
    "ListKeys": Rule(Role.ADMIN, tenant_in=None, of_all=True),
    "CreateKey": Rule(Role.ADMIN, tenant_in=None, of_all=True, outlasts=True),
    "RevokeKey": Rule(Role.ADMIN, tenant_in=None, of_all=True, outlasts=True),
}
