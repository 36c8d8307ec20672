"""Measures how good the answers are, against judgments."""
