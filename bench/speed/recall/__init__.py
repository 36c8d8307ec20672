"""How long a bot waits for its memory at the end of a turn, in simulated calls."""
