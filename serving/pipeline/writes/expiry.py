"""Items that expire: the default of a tenant for a kind, and the erasure of what has expired."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from serving.domain.budget import Deadline
from serving.domain.items.records import Item, ItemId, Segment, TenantName
from serving.pipeline.writes.forget import Eraser, Forgotten
from serving.ports.audit_log import Actor, acting
from serving.ports.memory_store import Batch, MemoryStore, Selector

logger = logging.getLogger(__name__)

EVERY_S = 20.0
"""The period of each replica's search for expired items: all are to be gone within a minute."""

VERIFICATION_S = 10.0
"""The wait of a sweep for the stores that follow the log. Erasures after that are not verified, and
follow as they do after `Forget`."""

ERASED_AT_ONCE = 500
"""The items of all tenants that are read together, each tenant's erased in one transaction."""

ALL_TENANTS = "*"

_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The lifetimes of segments without an expiry, by tenant and kind.

    Those of `ALL_TENANTS` are for the kinds for which a tenant has none of its own.
    """

    by_tenant: Mapping[str, Mapping[str, timedelta]] = field(default_factory=dict)

    def applied_to(self, batch: Batch, now: datetime) -> Batch:
        """The batch, whose segments without an expiry have that of their kind."""
        general = self.by_tenant.get(ALL_TENANTS, {})
        lifetimes = {**general, **self.by_tenant.get(batch.tenant, {})}
        if not lifetimes:
            return batch
        items = [_expiring(item, lifetimes, now) for item in batch.items]
        changed = zip(items, batch.items, strict=True)
        expiring = frozenset(item.item for item, given in changed if item is not given)
        return replace(batch, items=items, expiring=expiring)


def _expiring(item: Item, lifetimes: Mapping[str, timedelta], now: datetime) -> Item:
    """From the write on, and not from what may be years ago: an import is not erased at once."""
    if not isinstance(item, Segment) or item.expires_at or item.kind not in lifetimes:
        return item
    since, lifetime = max(item.event_time, now), lifetimes[item.kind]
    return item if _LAST - since < lifetime else replace(item, expires_at=since + lifetime)


SWEEPER = Actor("expiry", "Forget")
"""The actor of expiry in the audit log."""


class Sweeper:
    """Erases what has expired, as `Forget` does.

    Any number of replicas may sweep: what another has erased, or what is to live longer by now, is
    left out by the transaction that erases.
    """

    def __init__(self, store: MemoryStore, eraser: Eraser, now: Callable[[], datetime]) -> None:
        self._store = store
        self._eraser = eraser
        self._now = now

    async def sweep(self) -> None:
        """Erases all that has expired by now; raises `StoreUnavailableError`."""
        now, deadline = self._now(), Deadline.after(VERIFICATION_S)
        while expired := await self._store.expired(now, ERASED_AT_ONCE):
            of_tenant: defaultdict[TenantName, list[ItemId]] = defaultdict(list)
            for tenant, item in expired:
                of_tenant[tenant].append(item)
            erased = 0
            for tenant, items in of_tenant.items():
                selector = Selector(items=tuple(items), expired_by=now)
                with acting(SWEEPER):
                    forgotten = await self._eraser.forget(tenant, selector, deadline)
                erased += forgotten.segments + forgotten.facts
                _log(forgotten)
            if len(expired) < ERASED_AT_ONCE or not erased:
                return


def _log(forgotten: Forgotten) -> None:
    if forgotten.segments or forgotten.facts:
        unverified = [receipt.store for receipt in forgotten.receipts if not receipt.verified]
        remaining = sum(receipt.remaining for receipt in forgotten.receipts)
        logger.info(
            "expired items erased",
            extra={
                "segments": forgotten.segments,
                "facts": forgotten.facts,
                "remaining": remaining,
                "unverified": unverified,
            },
        )
