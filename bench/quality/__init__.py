"""Measures the quality of answers with judged questions."""
