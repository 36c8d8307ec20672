"""Sentence encoders: one checkpoint, several ways to run it.

`bert_encoder` is the fastest for BERT on a CPU with bfloat16 matrix instructions,
`qwen3_encoder` for Qwen3-Embedding on any device, `onnx_encoder` for the rest on a CPU, and
`torch_encoder` runs every architecture on every device. Their vectors agree to a cosine of
0.9999, so a checkpoint has one fingerprint in each precision, whichever of them runs it.
"""
