"""Measures with ghz, an independent load generator."""
