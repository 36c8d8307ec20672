"""Cross-encoders for two kinds of checkpoint.

`checkpoint` finds a model and identifies its kind, `sequence_classifier` and `qwen3_reranker`
implement one kind each, and `torch_cross_encoder` batches for either. The first runs in the
transformers library, the second in `serving.models`.
"""
