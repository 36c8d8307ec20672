"""Stored items: segments and facts, and when a fact holds."""
