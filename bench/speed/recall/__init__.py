"""The wait of a bot for its memory at the end of a turn, in simulated calls."""
