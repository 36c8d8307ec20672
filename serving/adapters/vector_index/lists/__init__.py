"""Approximate search: one interface, and the library that implements it on the CPU.

That of a GPU is in `serving.gpu`.
"""

from serving.adapters.vector_index.lists.faiss_lists import FaissLibrary as CpuLibrary
from serving.adapters.vector_index.lists.faiss_lists import scan

__all__ = ["CpuLibrary", "scan"]
