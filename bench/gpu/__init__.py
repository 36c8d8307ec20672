"""Measures of the models on an accelerator."""
