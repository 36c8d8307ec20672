"""Benchmarks of the service, its quality, its vector index and its models; see README.md."""
