"""Compares different texts of the same segments for the same encoder."""
