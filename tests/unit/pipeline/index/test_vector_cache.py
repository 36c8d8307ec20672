from __future__ import annotations

import numpy as np
import pytest

from serving.domain.items.records import TenantName
from serving.pipeline.index.vector_cache import VectorCache
from serving.ports.embedding import Vector
from tests.support.builders import TENANT

OTHER = TenantName("other")
VECTOR: Vector = np.array([0.6, 0.8], np.float32)


def test_the_least_recently_used_vector_is_evicted() -> None:
    cache = VectorCache(max_vectors=2)
    for text in ("q1", "q2", "q2"):
        cache.add(TENANT, text, VECTOR)

    cache.get(TENANT, "q1")
    cache.add(TENANT, "q3", VECTOR)

    kept = [text for text in ("q1", "q2", "q3") if cache.get(TENANT, text) is not None]
    assert kept == ["q1", "q3"]


def test_question_of_another_tenant_is_not_known() -> None:
    cache = VectorCache()

    cache.add(TENANT, "q1", VECTOR)

    assert cache.get(OTHER, "q1") is None


def test_batch_of_a_cached_row_is_released() -> None:
    batch = np.tile(VECTOR, (50, 1))
    cache = VectorCache()

    cache.add(TENANT, "q1", batch[7])

    found = cache.get(TENANT, "q1")
    assert isinstance(found, np.ndarray)
    assert found.base is None
    assert found.tolist() == pytest.approx(VECTOR.tolist())
