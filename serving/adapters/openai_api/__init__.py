"""Other services, asked by OpenAI's API: embeddings, and facts from talk."""

from serving.adapters.openai_api.embedder import ApiEmbedder, ApiModel
from serving.adapters.openai_api.extractor import ApiExtractor

__all__ = ["ApiEmbedder", "ApiExtractor", "ApiModel"]
