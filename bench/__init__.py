"""Measures the service through its client, as any caller sees it; `make bench` runs it."""
