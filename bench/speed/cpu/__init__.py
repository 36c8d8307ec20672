"""The CPU time of an answer, by what is asked and by process."""
