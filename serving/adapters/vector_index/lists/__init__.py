"""Inverted lists: one interface, implemented by FAISS on the CPU and by cuVS on the GPU."""
