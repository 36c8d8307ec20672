"""Sentence encoders: one checkpoint, several runtimes.

`bert_encoder` is the fastest for BERT on a CPU with bfloat16 matrix instructions,
`qwen3_encoder` for Qwen3-Embedding on any device, `onnx_encoder` for other models on a CPU, and
`torch_encoder` runs every architecture on every device. Their vectors agree to a cosine of
0.9999, so a checkpoint has one fingerprint per precision, whichever runtime is used.
"""
