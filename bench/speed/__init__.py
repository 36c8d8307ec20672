"""Measures the speed of the service through its client."""
