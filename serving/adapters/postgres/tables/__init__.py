"""The tables: rows and records, filters, tenants, content hashes, embedding models."""
