"""Shared by all benchmarks: collections, the service, load, CPU time, result records."""
