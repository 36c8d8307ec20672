"""Measures the vector index on a CPU: searches, rebuilds, filling."""
