"""Tenants in memory: their rows, words and relations, read from PostgreSQL and kept up to date.

What a tenant in memory answers is what PostgreSQL and Neo4j would: the same ids, order and scores.
"""

from serving.adapters.resident.residents import TenantsInMemory

__all__ = ["TenantsInMemory"]
