"""Cross-encoders: two kinds of checkpoint.

`checkpoint` finds a model and tells its kind, `sequence_classifier` and `qwen3_reranker` say how
each kind reads a question and a text together, and `torch_cross_encoder` runs either.
The first is run by the transformers library, the second by `serving.models`.
"""
