"""Costs of the schema: indexes of times and accesses, and row-level security."""
