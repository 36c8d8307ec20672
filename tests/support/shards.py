"""To which shard of an index a row belongs."""

from __future__ import annotations

import hashlib

from serving.domain.items.records import ItemId, TenantName
from serving.domain.shards import Shard


def owns(shard: Shard, tenant: TenantName, item: ItemId) -> bool:
    """Whether the row belongs to this shard, as the database computes it."""
    digest = hashlib.sha256(f"{tenant}\x1f{item.id}".encode()).digest()
    return int.from_bytes(digest[:4]) % shard.count == shard.number
