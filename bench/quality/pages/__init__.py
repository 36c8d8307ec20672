"""Writes the report of a set."""
