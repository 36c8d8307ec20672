"""Encoders in torch: any model of sentence-transformers, BERT in bfloat16, Qwen3."""
