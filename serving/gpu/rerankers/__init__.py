"""Rerankers in torch: cross-encoders with one logit, and Qwen3-Reranker."""
