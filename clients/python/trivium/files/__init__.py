"""Reads conversations, facts and questions from files."""
