"""In-memory vector indexes: `ExactIndex` scans every row, `TieredIndex` uses inverted lists.

Another library of nearest neighbours than FAISS is a module in `lists`.
"""

from serving.adapters.vector_index.rows.tenant_rows import ExactIndex
from serving.adapters.vector_index.rule import IndexRule
from serving.adapters.vector_index.tiered_index import TieredIndex

__all__ = ["ExactIndex", "IndexRule", "TieredIndex"]
