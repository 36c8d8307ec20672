"""Sentence encoders in ONNX Runtime, and what encoders of any runtime share.

`checkpoint` finds a model, `published` has those that need no torch, and `windows` splits texts.
The encoders of `serving.gpu` agree with these to a cosine of 0.9999, so a checkpoint has one
fingerprint per precision, whichever runtime is used.
"""
