"""The vectors of questions that may be asked again."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from serving.domain.items.records import TenantName
from serving.ports.embedding import VectorLike

MAX_VECTORS = 2000
"""Of all tenants: about 5 MB at 384 dimensions, and 25 with the longest questions at 1024."""


class VectorCache:
    """Caches vectors by tenant and text; the least recently used are evicted.

    Args:
        max_vectors: The most that are kept.
    """

    def __init__(self, max_vectors: int = MAX_VECTORS) -> None:
        self._max_vectors = max_vectors
        self._vectors: OrderedDict[tuple[TenantName, str], VectorLike] = OrderedDict()

    def get(self, tenant: TenantName, text: str) -> VectorLike | None:
        """Returns the vector of a tenant's question; None if it is not cached."""
        vector = self._vectors.get((tenant, text))
        if vector is not None:
            self._vectors.move_to_end((tenant, text))
        return vector

    def add(self, tenant: TenantName, text: str, vector: VectorLike) -> None:
        """Caches a vector, and evicts another if there is no room."""
        # An encoder's array is a row of its batch, all of which would stay in memory.
        kept = vector.copy() if isinstance(vector, np.ndarray) else vector
        self._vectors[tenant, text] = kept
        self._vectors.move_to_end((tenant, text))
        if len(self._vectors) > self._max_vectors:
            self._vectors.popitem(last=False)
