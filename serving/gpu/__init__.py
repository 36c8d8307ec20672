"""What needs torch or CUDA, an optional part: only `serving.composition` imports it."""
