"""English as it is read by rules: the entities of segments, and times in questions and turns."""
