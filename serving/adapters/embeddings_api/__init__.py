"""Embeddings computed by another service."""

from serving.adapters.embeddings_api.embedder import ApiEmbedder, ApiModel

__all__ = ["ApiEmbedder", "ApiModel"]
