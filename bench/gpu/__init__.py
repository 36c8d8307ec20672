"""Measures the models and the vector index on a GPU."""
