"""What is read out of texts: entities of segments, dates of questions."""
