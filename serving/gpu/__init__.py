"""The part that needs torch or CUDA, which is optional: only `serving.composition` imports it."""
