from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from serving.domain.items.records import TenantName
from serving.pipeline.index.vector_cache import VectorCache, bytes_of
from serving.ports.embedding import Vector
from tests.support.builders import TENANT

OTHER, THIRD = TenantName("other"), TenantName("third")

VECTOR: Vector = np.array([0.6, 0.8], np.float32)
ONE = bytes_of("q1", VECTOR)


def cache_of(vectors: int, *, of_a_tenant: int) -> VectorCache:
    """A cache that holds a number of vectors of questions of two letters."""
    return VectorCache(tenant_bytes=of_a_tenant * ONE, total_bytes=vectors * ONE)


def add(cache: VectorCache, tenant: TenantName, texts: Iterable[str]) -> None:
    for text in texts:
        cache.add(tenant, text, VECTOR)


def cached(cache: VectorCache, tenant: TenantName, texts: Iterable[str]) -> list[str]:
    return [text for text in texts if cache.get(tenant, text) is not None]


def test_busy_tenant_evicts_only_its_own_vectors() -> None:
    cache = cache_of(4, of_a_tenant=2)
    add(cache, TENANT, ["a1", "a2"])

    many = [f"q{number}" for number in range(10)]
    add(cache, OTHER, many)

    assert cached(cache, TENANT, ["a1", "a2"]) == ["a1", "a2"]
    assert cached(cache, OTHER, many) == ["q8", "q9"]


def test_the_least_recently_used_vector_of_a_tenant_is_evicted() -> None:
    cache = cache_of(4, of_a_tenant=2)
    add(cache, TENANT, ["q1", "q2"])

    cache.get(TENANT, "q1")
    add(cache, TENANT, ["q3"])

    assert cached(cache, TENANT, ["q1", "q2", "q3"]) == ["q1", "q3"]


def test_least_recent_tenant_is_evicted_at_total_bound() -> None:
    cache = cache_of(4, of_a_tenant=2)
    for tenant in (TENANT, OTHER):
        add(cache, tenant, ["q1", "q2"])

    cache.get(TENANT, "q1")
    add(cache, THIRD, ["q1"])

    assert cached(cache, TENANT, ["q1", "q2"]) == ["q1", "q2"]
    assert cached(cache, OTHER, ["q1", "q2"]) == ["q2"]


def test_long_question_takes_the_space_of_several() -> None:
    cache = cache_of(4, of_a_tenant=3)
    add(cache, TENANT, ["q1", "q2", "q3"])

    long = "?" * (ONE + 1)
    add(cache, TENANT, [long])

    assert cached(cache, TENANT, ["q1", "q2", "q3", long]) == ["q3", long]


def test_oversized_vector_is_not_cached() -> None:
    cache = cache_of(4, of_a_tenant=2)

    huge = "?" * 3 * ONE
    add(cache, TENANT, ["q1", huge, "q2", "q3"])

    assert cached(cache, TENANT, ["q1", huge, "q2", "q3"]) == ["q2", "q3"]


def test_repeated_vector_takes_space_once() -> None:
    cache = cache_of(4, of_a_tenant=2)

    add(cache, TENANT, ["q1", "q1", "q2"])

    assert cached(cache, TENANT, ["q1", "q2"]) == ["q1", "q2"]


def test_batch_of_a_cached_row_is_released() -> None:
    batch = np.tile(VECTOR, (50, 1))
    cache = VectorCache()

    cache.add(TENANT, "q1", batch[7])

    found = cache.get(TENANT, "q1")
    assert isinstance(found, np.ndarray)
    assert found.base is None
    assert found.tolist() == pytest.approx(VECTOR.tolist())
