"""Measures with ghz, a load tool that is not ours."""
