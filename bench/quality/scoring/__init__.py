"""Scores answers question by question, with confidence intervals."""
