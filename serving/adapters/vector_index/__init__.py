"""The vector index in memory: `exact_index` reads every row."""

from serving.adapters.vector_index.exact_index import ExactIndex

__all__ = ["ExactIndex"]
