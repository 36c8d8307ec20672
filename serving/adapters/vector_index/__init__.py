"""The vector index in memory: `exact_index` reads every row, `tiered_index` keeps many in lists."""

from serving.adapters.vector_index.exact_index import ExactIndex
from serving.adapters.vector_index.tiered_index import TieredIndex

__all__ = ["ExactIndex", "TieredIndex"]
