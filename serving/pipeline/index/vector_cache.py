"""The vectors of questions that may be asked again, bounded by bytes for each tenant and in all."""

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from serving.domain.items.records import TenantName
from serving.ports.embedding import VectorLike

TENANT_BYTES = 1 << 20
"""Of one tenant: about 450 questions at 384 dimensions, and 80 of the longest at 1024."""

TOTAL_BYTES = 8 << 20

ENTRY_BYTES = 660
"""What a tenant's only entry takes besides its text and its numbers; each further one takes 190."""

_FLOAT_BYTES = 4


@dataclass(slots=True)
class _Tenant:
    """The vectors of a tenant by question; the least recently used is the first."""

    vectors: OrderedDict[str, VectorLike] = field(default_factory=OrderedDict)
    bytes: int = 0


class VectorCache:
    """Caches vectors by tenant and text.

    A tenant at its bound loses its own least recently used vectors, so one that asks a lot takes no
    more than its bound from the others. At the bound of all, the tenant that has not asked for
    longest loses its own.

    Args:
        tenant_bytes: The most that one tenant takes.
        total_bytes: The most that all take.
    """

    def __init__(self, tenant_bytes: int = TENANT_BYTES, total_bytes: int = TOTAL_BYTES) -> None:
        self._tenant_bytes = tenant_bytes
        self._total_bytes = total_bytes
        self._tenants: OrderedDict[TenantName, _Tenant] = OrderedDict()
        self._bytes = 0

    def get(self, tenant: TenantName, text: str) -> VectorLike | None:
        """Returns the vector of a tenant's question; None if it is not cached."""
        cached = self._tenants.get(tenant)
        if cached is None or text not in cached.vectors:
            return None
        self._tenants.move_to_end(tenant)
        cached.vectors.move_to_end(text)
        return cached.vectors[text]

    def add(self, tenant: TenantName, text: str, vector: VectorLike) -> None:
        """Caches a vector, and evicts others if there is no room."""
        if self.get(tenant, text) is not None:
            return
        cached = self._tenants.setdefault(tenant, _Tenant())
        self._tenants.move_to_end(tenant)
        # An encoder's array is a row of its batch, all of which would stay in memory.
        cached.vectors[text] = vector.copy() if isinstance(vector, np.ndarray) else vector
        self._count(cached, bytes_of(text, vector))
        while cached.bytes > self._tenant_bytes:
            self._evict_from(tenant)
        while self._bytes > self._total_bytes:
            self._evict_from(next(iter(self._tenants)))

    def _evict_from(self, tenant: TenantName) -> None:
        cached = self._tenants[tenant]
        self._count(cached, -bytes_of(*cached.vectors.popitem(last=False)))
        if not cached.vectors:
            del self._tenants[tenant]

    def _count(self, cached: _Tenant, more: int) -> None:
        cached.bytes += more
        self._bytes += more


def bytes_of(text: str, vector: VectorLike) -> int:
    """Counts the bytes that a cached vector takes."""
    return ENTRY_BYTES + sys.getsizeof(text) + _FLOAT_BYTES * len(vector)
