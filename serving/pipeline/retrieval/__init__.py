"""Answering a question: legs, fusion, ordering, reranking, and why an item is missing."""
