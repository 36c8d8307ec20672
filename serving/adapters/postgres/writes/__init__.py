"""Writes and erasures, each in one transaction."""
