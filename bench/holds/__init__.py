"""The model of what holds now: its pairs of statements, its weights, and what it is worth."""
