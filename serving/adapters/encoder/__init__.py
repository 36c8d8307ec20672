"""Sentence encoders in ONNX Runtime, and what encoders of any runtime share.

`checkpoint` finds a model, `published` has those that need no torch, and `windows` splits texts.
The fingerprint of a checkpoint is that of its weights, or of its ONNX graph if it has no weights.
"""
