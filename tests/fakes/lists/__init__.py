"""Libraries of inverted lists, without a GPU."""
