"""Sentence encoders: one checkpoint, three ways to run it.

`bert_encoder` is the fastest on a CPU with bfloat16 matrix instructions, `onnx_encoder` on
any other CPU, and `torch_encoder` runs every architecture on every device. Their
vectors agree to a cosine of 0.9999, so a checkpoint has one fingerprint, whichever
of them runs it.
"""
