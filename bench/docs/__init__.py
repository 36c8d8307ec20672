"""Writes the measured figures of the pages from the baselines."""
