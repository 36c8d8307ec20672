"""Answers from memory compared with those of the stores."""
