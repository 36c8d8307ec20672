"""Other services: embeddings and facts from talk by OpenAI's API, and rerankers by `/rerank`."""

from serving.adapters.openai_api.embedder import ApiEmbedder, ApiModel
from serving.adapters.openai_api.extractor import ApiExtractor
from serving.adapters.openai_api.reranker import ApiReranker

__all__ = ["ApiEmbedder", "ApiExtractor", "ApiModel", "ApiReranker"]
