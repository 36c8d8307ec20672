"""Qwen3 as an encoder: architecture, checkpoint and forward pass."""
